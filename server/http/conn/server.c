/* What the parts of the server ask of the whole. */
#include "server/http/conn/server.h"

#include <stdio.h>

#include "core/check.h"
#include "core/hash.h"

void lf_new_id(struct lf_http_server *s, char out[25])
{
    uint64_t in[] = {s->id_seed, atomic_fetch_add(&s->id_counter, 1), 0};
    uint64_t a = lf_hash64(in, sizeof in);
    in[2] = 1;
    uint64_t b = lf_hash64(in, sizeof in);
    snprintf(out, 25, "%016llx%08llx", (unsigned long long)a, (unsigned long long)(b & 0xffffffffu));
}

double lf_http_server_progress_now(struct lf_http_server *s)
{
    return LF_MIN(atomic_load(&s->progress_permille), 999) / 1000.0;
}
