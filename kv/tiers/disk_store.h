/* A directory that keeps blocks over restarts: one process at a time, one identity, a table for each kind of block.
 * disk_record.h says what lies in it. The directory's owner calls lock, open and close; tables are for any thread. */
#ifndef LF_KV_TIERS_DISK_STORE_H
#define LF_KV_TIERS_DISK_STORE_H

#include "kv/tiers/disk_table.h"

enum { LF_DISK_KINDS_N = 4, LF_DISK_KIND_NAME_BYTES = 16, LF_DISK_IDENTITY_BYTES = 2 * LF_SHA256_BYTES + 1 };

struct lf_disk_kind {
    char name[LF_DISK_KIND_NAME_BYTES]; /* letters, digits and '-' */
    uint64_t block_bytes;
    uint32_t share; /* of the budget; all shares together are the whole */
};

struct lf_disk_store {
    int lock_fd; /* 0: not locked */
    int n_kinds;
    struct lf_disk_table *tables[LF_DISK_KINDS_N]; /* of kind i */
    uint64_t bytes;                                /* that the files can take, on disk */
    char identity[LF_DISK_IDENTITY_BYTES];         /* the name of the identity's directory */
    char other[LF_DISK_IDENTITY_BYTES];            /* of the other ones there the one that takes most; "": none */
};

struct lf_disk_store_opts {
    const char *dir;         /* made if it is not there (its parent must be) */
    const char *about;       /* for people: the model's name; one line */
    const uint8_t *identity; /* [LF_SHA256_BYTES], of everything that the bytes of a block depend on */
    uint64_t budget_bytes;   /* of the whole directory, other identities' files included */
    const struct lf_disk_kind *kinds;
    int n_kinds;
};

/* What can be refused before the identity is known: makes the directory and takes its lock. *store is zeroed, and stays
 * where it is until close. LF_INVALID where another process uses the directory, or it is none; LF_IO. */
LF_MUST_CHECK enum lf_status lf_disk_store_lock(struct lf_disk_store *store, const char *dir, struct lf_err *err);
/* *store is locked for that directory, or zeroed: then it is locked first. LF_LIMIT where the budget, less what other
 * identities take, holds no block of each kind; LF_IO, LF_NO_MEMORY. On failure *store is closed. */
LF_MUST_CHECK enum lf_status lf_disk_store_open(struct lf_disk_store *store, const struct lf_disk_store_opts *opts,
                                                struct lf_err *err);
void lf_disk_store_close(struct lf_disk_store *store); /* accepts a zeroed one, and one that did not open */
/* An identity of which only the name of its directory is known: for who brings blocks from elsewhere. */
struct lf_disk_named {
    const char *dir, *identity; /* identity: the 64 digits */
    const char *kind;
    uint64_t block_bytes;
    const char *about; /* as above, for a directory that is made */
    uint32_t n_slots;  /* where it is made; the slots of one that is there stay as many as they are */
    bool makes;        /* else it must be there */
};
/* The table of one kind; the caller holds lf_disk_lock, and closes it. LF_NOT_FOUND where it would have to be made and
 * may not be; LF_CORRUPT where its files are of blocks of another size; LF_LIMIT, LF_IO, LF_NO_MEMORY. */
LF_MUST_CHECK enum lf_status lf_disk_store_open_named(struct lf_disk_table **out, const struct lf_disk_named *named,
                                                      struct lf_err *err);
/* Slots that kind i gets of a budget of which other identities take nothing: the most that open gives it. */
uint32_t lf_disk_store_n_slots(uint64_t budget_bytes, const struct lf_disk_kind *kinds, int n_kinds, int i);

#endif
