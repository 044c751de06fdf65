#include "tokenizer/sp_shim.h"

#include <algorithm>
#include <cstdio>
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

} // namespace

extern "C" enum lf_sp_status lf_sp_open(struct lf_sp **out, const void *model, size_t n_bytes, char *message,
                                        size_t message_bytes)
{
    struct lf_sp *sp = nullptr;
    try {
        sp = new lf_sp;
        const auto status = sp->processor.LoadFromSerializedProto({static_cast<const char *>(model), n_bytes});
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
