#include "kv/tiers/disk_stream.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/check.h"
#include "core/le.h"
#include "core/str.h"
#include "kv/prefix_cache.h"
#include "kv/tiers/disk_walk.h"

enum { NUMBER = 8, SECTIONS = 12, BLOCKS = 16, BLOCK_BYTES = 24, IDENTITY = 32, KIND = 64, ABOUT = 80, SHA = 480 };
enum { HEAD_BYTES = 512, BATCH_BYTES = 64 * 1024 * 1024 };

static const char magic[] = "LFKVexp1";

struct section {
    uint32_t number, n_sections;
    uint64_t n_blocks, block_bytes;
    char identity[LF_DISK_NAME_BYTES];
    char kind[LF_DISK_KIND_NAME_BYTES + 1];
    char about[SHA - ABOUT];
};

/* ---- bytes ---- */

static void encode_head(const struct section *s, uint8_t out[HEAD_BYTES])
{
    memset(out, 0, HEAD_BYTES);
    memcpy(out, magic, NUMBER);
    lf_put_le(out + NUMBER, s->number, 4);
    lf_put_le(out + SECTIONS, s->n_sections, 4);
    lf_put_le(out + BLOCKS, s->n_blocks, 8);
    lf_put_le(out + BLOCK_BYTES, s->block_bytes, 8);
    for (size_t i = 0; i < LF_SHA256_BYTES; i++)
        out[IDENTITY + i] = (uint8_t)(lf_digit(s->identity[2 * i]) << 4 | lf_digit(s->identity[2 * i + 1]));
    memcpy(out + KIND, s->kind, strnlen(s->kind, LF_DISK_KIND_NAME_BYTES));
    memcpy(out + ABOUT, s->about, strnlen(s->about, sizeof(s->about) - 1));
    lf_sha256(out, SHA, out + SHA);
}

/* A name that a file may have: it comes from outside. */
static bool is_kind(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-";
    return *name && name[strspn(name, letters)] == '\0';
}

static enum lf_status decode_head(struct section *out, const uint8_t in[HEAD_BYTES], const char *name,
                                  struct lf_err *err)
{
    uint8_t sha[LF_SHA256_BYTES];
    if (memcmp(in, magic, NUMBER - 1) != 0)
        return lf_fail(err, LF_UNSUPPORTED, "%s: expected a file that `longflash documents export` has written", name);
    if (in[NUMBER - 1] != (uint8_t)magic[NUMBER - 1])
        return lf_fail(err, LF_UNSUPPORTED, "%s: its version is \"%c\", this program reads %c", name, in[NUMBER - 1],
                       magic[NUMBER - 1]);
    lf_sha256(in, SHA, sha);
    if (memcmp(sha, in + SHA, sizeof(sha)) != 0) return lf_fail(err, LF_CORRUPT, "%s: a head is broken", name);
    *out = (struct section){.number = (uint32_t)lf_get_le(in + NUMBER, 4),
                            .n_sections = (uint32_t)lf_get_le(in + SECTIONS, 4),
                            .n_blocks = lf_get_le(in + BLOCKS, 8),
                            .block_bytes = lf_get_le(in + BLOCK_BYTES, 8)};
    for (size_t i = 0; i < LF_SHA256_BYTES; i++) snprintf(out->identity + 2 * i, 3, "%02x", in[IDENTITY + i]);
    memcpy(out->kind, in + KIND, LF_DISK_KIND_NAME_BYTES);
    memcpy(out->about, in + ABOUT, sizeof(out->about) - 1);
    lf_disk_clean_about(out->about);
    if (!is_kind(out->kind) || out->n_blocks < 1 || out->n_blocks > (uint64_t)1 << 30 || out->block_bytes < 1 ||
        out->block_bytes > LF_KV_IMPORT_BLOCK_BYTES)
        return lf_fail(err, LF_CORRUPT, "%s: a head has impossible numbers", name);
    return LF_OK;
}

static enum lf_status write_all(const struct lf_disk_end *to, const void *bytes, size_t n, struct lf_err *err)
{
    for (size_t done = 0; done < n;) {
        ssize_t got = write(to->fd, (const char *)bytes + done, n - done);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0)
            return lf_fail(err, errno == ENOSPC || errno == EDQUOT || errno == EFBIG ? LF_FULL : LF_IO,
                           "cannot write %s: %s", to->name, strerror(errno));
        done += (size_t)got;
    }
    return LF_OK;
}

/* *n_read < n: the end came before. */
static enum lf_status read_up_to(const struct lf_disk_end *from, void *bytes, size_t n, size_t *n_read,
                                 struct lf_err *err)
{
    for (*n_read = 0; *n_read < n;) {
        ssize_t got = read(from->fd, (char *)bytes + *n_read, n - *n_read);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return lf_fail(err, LF_IO, "cannot read %s: %s", from->name, strerror(errno));
        if (got == 0) return LF_OK;
        *n_read += (size_t)got;
    }
    return LF_OK;
}

static enum lf_status read_all(const struct lf_disk_end *from, void *bytes, size_t n, struct lf_err *err)
{
    size_t n_read;
    LF_TRY(read_up_to(from, bytes, n, &n_read, err));
    return n_read == n ? LF_OK : lf_fail(err, LF_CORRUPT, "%s: it ends in the middle", from->name);
}

/* ---- export ---- */

struct exporter {
    const struct lf_disk_end *to;
    lf_disk_wanted_fn *wanted;
    void *ctx;
    struct section *sections; /* owned */
    uint32_t n_sections;
    uint64_t place; /* in the section that is being written */
    struct lf_disk_moved moved;
    bool no_memory;
};

static bool note_section(void *ctx, const struct lf_disk_found *f)
{
    struct exporter *e = ctx;
    if (f->block_bytes == 0 || !e->wanted(e->ctx, f->identity)) return true;
    struct section *grown = realloc(e->sections, (e->n_sections + 1) * sizeof(*grown));
    e->no_memory = !grown;
    if (!grown) return false;
    e->sections = grown;
    struct section *s = &e->sections[e->n_sections];
    *s = (struct section){.number = e->n_sections++, .n_blocks = f->n_listed, .block_bytes = f->block_bytes};
    memcpy(s->identity, f->identity, sizeof(s->identity));
    memcpy(s->kind, f->kind, sizeof(s->kind));
    snprintf(s->about, sizeof(s->about), "%.*s", (int)sizeof(s->about) - 1, f->about);
    return true;
}

static enum lf_status write_block(void *ctx, const struct lf_disk_record *record, const uint8_t *bytes,
                                  struct lf_err *err)
{
    struct exporter *e = ctx;
    uint8_t encoded[LF_DISK_RECORD_BYTES] = {0};
    if (bytes) lf_disk_record_encode(record, e->place, encoded);
    e->place++;
    LF_TRY(write_all(e->to, encoded, sizeof(encoded), err));
    e->moved.bytes += sizeof(encoded);
    if (!bytes) {
        e->moved.n_broken++;
        return LF_OK;
    }
    LF_TRY(write_all(e->to, bytes, record->block_bytes, err));
    e->moved.n_blocks++;
    e->moved.n_tokens += (uint64_t)lf_prefix_tier_tokens(record->ids);
    e->moved.bytes += record->block_bytes;
    return LF_OK;
}

static enum lf_status write_sections(struct exporter *e, const char *dir, struct lf_err *err)
{
    LF_TRY(lf_disk_walk(dir, false, note_section, e, err));
    if (e->no_memory) return lf_fail(err, LF_NO_MEMORY, "no memory for a list of identities");
    if (e->n_sections == 0) return lf_fail(err, LF_NOT_FOUND, "%s has no blocks to export", dir);
    for (uint32_t i = 0; i < e->n_sections; i++) {
        struct section *s = &e->sections[i];
        uint8_t head[HEAD_BYTES];
        s->n_sections = e->n_sections;
        encode_head(s, head);
        e->place = 0;
        LF_TRY(write_all(e->to, head, sizeof(head), err));
        e->moved.bytes += sizeof(head);
        LF_TRY(lf_disk_walk_blocks(dir, s->identity, s->kind, write_block, e, err));
        if (e->place != s->n_blocks) return lf_fail(err, LF_IO, "%s changes while it is read", dir);
    }
    return LF_OK;
}

enum lf_status lf_disk_export(struct lf_disk_moved *out, const char *dir, const struct lf_disk_end *to,
                              lf_disk_wanted_fn *wanted, void *ctx, struct lf_err *err)
{
    struct exporter e = {.to = to, .wanted = wanted, .ctx = ctx};
    enum lf_status status = write_sections(&e, dir, err);
    free(e.sections);
    if (status == LF_OK) *out = e.moved;
    return status;
}

/* ---- import ---- */

struct importer {
    const struct lf_disk_end *from;
    const struct section *section;
    struct lf_disk_table *table;
    uint8_t *bytes; /* n_batch slots, aligned */
    struct lf_disk_record *records;
    uint32_t n, n_batch;
    struct lf_disk_moved *moved;
};

/* In some group, or part of a state: nothing here says how many there are. */
static bool is_of_its_text(const struct lf_disk_record *r)
{
    struct lf_prefix_key key;
    lf_prefix_key_next(&r->prev, r->ids, LF_KV_BLOCK_TOKENS, &key);
    key = lf_prefix_group_key(&key, (key.bytes[0] ^ r->key.bytes[0]) | (key.bytes[1] ^ r->key.bytes[1]) << 8);
    return memcmp(&key, &r->key, sizeof(key)) == 0;
}

/* The block at this place into the batch, unless it was left out. */
static enum lf_status read_block(struct importer *m, uint64_t place, struct lf_err *err)
{
    uint8_t encoded[LF_DISK_RECORD_BYTES], sha[LF_SHA256_BYTES];
    uint64_t block_bytes = m->section->block_bytes, slot_bytes = lf_disk_slot_bytes(block_bytes);
    struct lf_disk_record *r = &m->records[m->n];
    uint8_t *bytes = m->bytes + m->n * slot_bytes;
    LF_TRY(read_all(m->from, encoded, sizeof(encoded), err));
    enum lf_disk_record_state state = lf_disk_record_decode(r, place, encoded);
    m->moved->bytes += sizeof(encoded);
    if (state == LF_DISK_RECORD_EMPTY) {
        m->moved->n_broken++;
        return LF_OK;
    }
    if (state != LF_DISK_RECORD_WHOLE || r->block_bytes != block_bytes || !is_of_its_text(r))
        return lf_fail(err, LF_CORRUPT, "%s: the record of block %" PRIu64 " is broken", m->from->name, place);
    LF_TRY(read_all(m->from, bytes, block_bytes, err));
    lf_sha256(bytes, block_bytes, sha);
    if (memcmp(sha, r->data_sha, sizeof(sha)) != 0)
        return lf_fail(err, LF_CORRUPT, "%s: block %" PRIu64 " is broken", m->from->name, place);
    memset(bytes + block_bytes, 0, slot_bytes - block_bytes);
    m->moved->bytes += block_bytes;
    m->n++;
    return LF_OK;
}

/* What the batch has, to the disk. */
static enum lf_status put_batch(struct importer *m, struct lf_err *err)
{
    struct lf_disk_block blocks[LF_DISK_BATCH_N];
    uint64_t slot_bytes = lf_disk_slot_bytes(m->section->block_bytes);
    uint32_t n_there = 0, n_listed;
    for (uint32_t i = 0; i < m->n; i++) {
        const struct lf_disk_record *r = &m->records[i];
        n_there += lf_disk_table_has(m->table, &r->key) ? 1 : 0;
        blocks[i] = (struct lf_disk_block){r->key, r->prev, r->ids, m->bytes + i * slot_bytes, r->origin, false};
    }
    LF_TRY(lf_disk_table_put(m->table, blocks, m->n, &n_listed, err));
    for (uint32_t i = 0; i < m->n; i++) m->moved->n_tokens += (uint64_t)lf_prefix_tier_tokens(m->records[i].ids);
    m->moved->n_there += n_there;
    m->moved->n_blocks += m->n;
    m->n = 0;
    return LF_OK;
}

static enum lf_status read_blocks(struct importer *m, struct lf_err *err)
{
    for (uint64_t place = 0; place < m->section->n_blocks; place++) {
        enum lf_status status = read_block(m, place, err);
        if (status == LF_OK && m->n < m->n_batch && place + 1 < m->section->n_blocks) continue;
        enum lf_status written = put_batch(m, status == LF_OK ? err : NULL);
        if (status != LF_OK || written != LF_OK) return status != LF_OK ? status : written;
    }
    return LF_OK;
}

static enum lf_status import_section(struct importer *m, struct lf_err *err)
{
    struct lf_disk_table_stats stats;
    uint64_t slot_bytes = lf_disk_slot_bytes(m->section->block_bytes);
    lf_disk_table_stats(m->table, &stats);
    uint64_t most = LF_MIN(LF_MIN(m->section->n_blocks, (uint64_t)stats.n_slots), (uint64_t)LF_DISK_BATCH_N);
    m->n_batch = (uint32_t)LF_MIN(most, LF_MAX((uint64_t)BATCH_BYTES / slot_bytes, (uint64_t)1));
    m->n = 0;
    m->bytes = aligned_alloc(LF_DISK_ALIGN_BYTES, m->n_batch * slot_bytes);
    m->records = calloc(m->n_batch, sizeof(*m->records));
    enum lf_status status = m->bytes && m->records
                                ? read_blocks(m, err)
                                : lf_fail(err, LF_NO_MEMORY, "no memory for %u blocks of %" PRIu64 " bytes", m->n_batch,
                                          m->section->block_bytes);
    free(m->bytes);
    free(m->records);
    lf_disk_table_stats(m->table, &stats);
    m->moved->n_gone += stats.n_evicted;
    return status;
}

/* With the table that its blocks belong into. */
static enum lf_status open_section(struct importer *m, const char *dir, bool makes, struct lf_err *err)
{
    const struct section *s = m->section;
    const struct lf_disk_named named = {.dir = dir,
                                        .identity = s->identity,
                                        .kind = s->kind,
                                        .block_bytes = s->block_bytes,
                                        .about = s->about,
                                        .n_slots = (uint32_t)s->n_blocks,
                                        .makes = makes};
    struct lf_err why = {0};
    enum lf_status status = lf_disk_store_open_named(&m->table, &named, &why);
    if (status == LF_NOT_FOUND)
        return lf_fail(err, LF_INVALID, "%s has blocks of %s (%.120s), which no server has used %s with", m->from->name,
                       s->identity, s->about, dir);
    if (status != LF_OK) return lf_fail(err, status, "%s", why.message);
    status = import_section(m, err);
    lf_disk_table_close(m->table);
    return status;
}

enum lf_status lf_disk_import(struct lf_disk_moved *out, const char *dir, const struct lf_disk_end *from, bool makes,
                              struct lf_err *err)
{
    memset(out, 0, sizeof(*out));
    for (uint32_t number = 0, n_sections = 1; number < n_sections; number++) {
        uint8_t head[HEAD_BYTES];
        struct section section;
        struct importer m = {.from = from, .section = &section, .moved = out};
        LF_TRY(read_all(from, head, sizeof(head), err));
        LF_TRY(decode_head(&section, head, from->name, err));
        out->bytes += sizeof(head);
        if (section.number != number || (number > 0 && section.n_sections != n_sections) || section.n_sections == 0)
            return lf_fail(err, LF_CORRUPT, "%s: a section is not in its place", from->name);
        n_sections = section.n_sections;
        LF_TRY(open_section(&m, dir, makes, err));
    }
    uint8_t more;
    size_t n_more;
    LF_TRY(read_up_to(from, &more, 1, &n_more, err));
    return n_more == 0 ? LF_OK : lf_fail(err, LF_CORRUPT, "%s: it goes on behind its end", from->name);
}
