/* The format of a document on disk: everything that is needed to write it anew.
 *
 * Documents lie beside the blocks that they were read into, under the same lock (kv/tiers/disk_record.h), one file
 * each:
 *
 *     DIR/documents/<16 hexadecimal digits>.doc    a document
 *                   <16 hexadecimal digits>.tmp    one that was being written when the process ended: it is removed
 *
 * The digits count: a file that is written later has a higher number. Of two documents of one tenant and name, which a
 * crash between writing the second and removing the first can leave, the one with the higher number holds.
 *
 * A file is a head of 512 bytes, the text, the system prompt and the tools, one behind the other. Integers are
 * little-endian:
 *
 *       0  8 bytes    "LFdoc001"
 *       8  u64        bytes of the file
 *      16  32 bytes   whose it is: SHA-256 of the API key, zeros without keys
 *      48  i64        created, Unix time; a template that asks for the date is told this one
 *      56  i64        expires, Unix time; 0: never
 *      64  i64        tokens of its beginning of a conversation, as the model that read it first counted them
 *      72  u64        bytes of the text: UTF-8 without NUL
 *      80  u64        bytes of the system prompt: UTF-8; 0: it has none
 *      88  u64        bytes of the tools, a JSON array, UTF-8; 0: it has none
 *      96  u32        where its tokens stay: 0 nowhere in particular, 1 on disk, 2 in memory, 3 on the device
 *     100  u32        bytes of the name
 *     104  32 bytes   its ETag without the quotes: the first 32 hexadecimal digits of SHA-256 over text, system prompt
 *                     and, where it has any, tools, each behind its length as a u64
 *     136  128 bytes  the name, then zeros: letters, digits, '.', '_' and '-'
 *     264  zeros
 *     448  32 bytes   SHA-256 of all that is behind the head
 *     480  32 bytes   SHA-256 of the 480 bytes before
 *
 * So every byte of a file is under a checksum, and the head can be read by itself. Who finds another number in the
 * first 8 bytes behind "LFdoc", another pin or something in the zeros, under checksums that hold, has a file of a later
 * version: it is left as it is, and not served.
 *
 * A file is written under its .tmp name, synced, renamed, and then the directory is synced: whenever the process or the
 * power ends, a .doc file is whole or not there. (The checksums are there for disks that lie.) */
#ifndef LF_SERVER_DOCUMENTS_DOCUMENT_FILE_H
#define LF_SERVER_DOCUMENTS_DOCUMENT_FILE_H

#include "server/documents/documents.h"

enum { LF_DOCUMENT_HEAD_BYTES = 512 };

/* Views are borrowed: from who writes it, or from the bytes that were read. */
struct lf_document_file {
    uint8_t tenant[LF_SHA256_BYTES];
    struct lf_str name;
    int64_t created_s, expires_s, n_tokens;
    enum lf_pin pin;
    struct lf_document_content content;
};

/* Pure functions, any thread. */
void lf_document_file_head(const struct lf_document_file *file, uint8_t head[LF_DOCUMENT_HEAD_BYTES]);
/* How many bytes a file has by its head. LF_CORRUPT where it is no head, LF_UNSUPPORTED where it is of a later
 * version. */
LF_MUST_CHECK enum lf_status lf_document_file_bytes(const uint8_t head[LF_DOCUMENT_HEAD_BYTES], uint64_t *n_bytes);
/* A whole file. LF_CORRUPT, LF_UNSUPPORTED as above. */
LF_MUST_CHECK enum lf_status lf_document_file_read(struct lf_document_file *out, const uint8_t *bytes, size_t n);

#endif
