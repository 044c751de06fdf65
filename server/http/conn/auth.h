/* API keys: who may ask, and which tenant a key is.
 *
 * Keys come from a file or from an environment variable, never from argv, and only their SHA-256 stays in memory. A
 * presented key is compared with all of them without a branch on the outcome, so time tells nothing about a key. */
#ifndef LF_SERVER_HTTP_CONN_AUTH_H
#define LF_SERVER_HTTP_CONN_AUTH_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/hash.h"
#include "core/status.h"
#include "core/str.h"
#include "server/http/conn/key_line.h"

/* Whose request it is. salt parts the prefix cache between tenants; all zero without keys. */
struct lf_tenant {
    uint64_t id; /* of the key; without keys 0 here, and the address's once the head has been read */
    bool by_key; /* it is a key's */
    struct lf_key_limits limits;
    uint8_t salt[LF_SHA256_BYTES];
};

/* A key, and what goes with it. */
struct lf_key {
    uint8_t digest[LF_SHA256_BYTES];
    struct lf_key_limits limits;
};

/* What was done for those keys that have a name: it is a label of metrics. A name stays, with its counters, when keys
 * are read again; keys of one name are counted together. */
struct lf_key_meter {
    char name[LF_KEY_NAME_BYTES + 1];
    struct lf_tenant_meter counters;
};

struct lf_keys {
    pthread_mutex_t lock;
    struct lf_key_meter *meters[LF_API_KEYS_N]; /* [n_meters], owned; each stays where it is */
    int n_meters;
    struct lf_key *list; /* [n], owned */
    int n;
    const char *file, *env; /* borrowed; NULL: none */
};

/* file: one key a line (key_line.h), blank lines and lines that begin with # are skipped; of a key that is there twice
 * the last line counts. env: keys separated by commas, without limits. */
LF_MUST_CHECK enum lf_status lf_keys_init(struct lf_keys *keys, const char *file, const char *env, struct lf_err *err);
void lf_keys_deinit(struct lf_keys *keys); /* accepts a zeroed one */
/* The meter of the i-th name; NULL: there are not so many. Any thread. */
const struct lf_key_meter *lf_keys_meter(struct lf_keys *keys, int i);
/* Reads both sources again; on an error the old keys stay. Any thread. */
LF_MUST_CHECK enum lf_status lf_keys_reload(struct lf_keys *keys, struct lf_err *err);
/* The values of Authorization and, where that is not there, of X-Api-Key (empty: there was none). Whether they let in,
 * and as whom. Any thread. */
bool lf_keys_admit(struct lf_keys *keys, struct lf_str authorization, struct lf_str api_key, struct lf_tenant *out);

/* The same one again, by its salt alone: without limits of its own. */
void lf_tenant_from_salt(struct lf_tenant *out, const uint8_t salt[LF_SHA256_BYTES]);

#endif
