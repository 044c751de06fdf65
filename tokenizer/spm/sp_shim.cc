#include "tokenizer/spm/sp_shim.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include <sentencepiece_processor.h>

struct lf_sp {
    sentencepiece::SentencePieceProcessor processor;
};

namespace
{

void say(char *message, size_t message_bytes, const char *text)
{
    if (message_bytes > 0) std::snprintf(message, message_bytes, "%s", text);
}

// Memory for the library while it reads a model. Its protobuf does not survive an exception in the middle of a message:
// destructors then run over parts that were never made. So a reserve is taken before (address space only, it is not
// touched); where memory runs out it is given back, the library comes to its end on it, and what it made is dropped.
// What `new` calls is one for the whole process, hence the reserve of each thread stands outside of any object.
constexpr std::size_t RESERVE_BASE_BYTES = 4 << 20, RESERVE_PER_BYTE = 32;

thread_local void *reserve = nullptr;

void give_back_reserve()
{
    if (!reserve) throw std::bad_alloc();
    std::free(reserve);
    reserve = nullptr;
}

class Reserve
{
  public:
    explicit Reserve(std::size_t n_bytes)
    {
        reserve = std::malloc(n_bytes);
        if (!reserve) throw std::bad_alloc();
        before = std::set_new_handler(give_back_reserve);
    }
    ~Reserve()
    {
        std::set_new_handler(before);
        std::free(reserve);
        reserve = nullptr;
    }
    Reserve(const Reserve &) = delete;
    Reserve &operator=(const Reserve &) = delete;
    void check() const
    {
        if (!reserve) throw std::bad_alloc();
    }

  private:
    std::new_handler before = nullptr;
};

} // namespace

extern "C" enum lf_sp_status lf_sp_open(struct lf_sp **out, const void *model, size_t n_bytes, char *message,
                                        size_t message_bytes)
{
    struct lf_sp *sp = nullptr;
    try {
        const Reserve held(RESERVE_BASE_BYTES + RESERVE_PER_BYTE * n_bytes);
        sp = new lf_sp;
        const auto status = sp->processor.LoadFromSerializedProto({static_cast<const char *>(model), n_bytes});
        held.check();
        if (!status.ok()) {
            say(message, message_bytes, status.error_message());
            delete sp;
            return LF_SP_REFUSED;
        }
        *out = sp;
        return LF_SP_OK;
    } catch (const std::bad_alloc &) {
        say(message, message_bytes, "no memory");
        delete sp;
        return LF_SP_NO_MEMORY;
    } catch (const std::exception &e) {
        say(message, message_bytes, e.what());
    } catch (...) {
        say(message, message_bytes, "unknown exception");
    }
    delete sp;
    return LF_SP_REFUSED;
}

extern "C" void lf_sp_close(struct lf_sp *sp)
{
    try {
        delete sp;
    } catch (...) {
    }
}

extern "C" int lf_sp_n_pieces(const struct lf_sp *sp)
{
    try {
        return sp->processor.GetPieceSize();
    } catch (...) {
        return 0;
    }
}

extern "C" enum lf_sp_status lf_sp_get(const struct lf_sp *sp, int id, struct lf_sp_piece *out)
{
    try {
        const std::string &text = sp->processor.IdToPiece(id);
        out->text = text.data();
        out->len = text.size();
        out->score = sp->processor.GetScore(id);
        out->kind = sp->processor.IsUnknown(id)   ? LF_SP_UNKNOWN
                    : sp->processor.IsControl(id) ? LF_SP_CONTROL
                    : sp->processor.IsUnused(id)  ? LF_SP_UNUSED
                    : sp->processor.IsByte(id)    ? LF_SP_BYTE
                                                  : LF_SP_NORMAL;
        return LF_SP_OK;
    } catch (const std::bad_alloc &) {
        return LF_SP_NO_MEMORY;
    } catch (...) {
        return LF_SP_REFUSED;
    }
}

extern "C" enum lf_sp_status lf_sp_encode(const struct lf_sp *sp, const char *text, size_t n_bytes, int *ids,
                                          size_t n_max, size_t *n)
{
    try {
        std::vector<int> found;
        if (!sp->processor.Encode({text, n_bytes}, &found).ok()) return LF_SP_REFUSED;
        std::copy_n(found.begin(), std::min(found.size(), n_max), ids);
        *n = found.size();
        return LF_SP_OK;
    } catch (const std::bad_alloc &) {
        return LF_SP_NO_MEMORY;
    } catch (...) {
        return LF_SP_REFUSED;
    }
}
