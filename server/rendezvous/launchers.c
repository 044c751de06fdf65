#include "server/rendezvous/launchers.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "core/check.h"

enum { RANKS_MOST = 1000000, DIGITS_N = 7, HOST_BYTES = 256 };

struct environment {
    const char *(*get)(const char *name, void *user);
    void *user;
};

/* The names of a launcher's numbers, and what they said. */
struct numbers {
    const char *rank_name, *size_name;
    int rank, n_ranks;
};

static const char *value_of(const struct environment *env, const char *name)
{
    const char *value = env->get(name, env->user);
    return value && value[0] ? value : NULL;
}

static enum lf_status read_number(int *out, const char *name, const char *text, struct lf_err *err)
{
    int value = 0;
    size_t n = strlen(text);
    bool ok = n <= DIGITS_N;
    for (size_t i = 0; ok && i < n; i++) {
        ok = text[i] >= '0' && text[i] <= '9';
        value = value * 10 + (text[i] - '0');
    }
    if (!ok || value > RANKS_MOST)
        return lf_fail(err, LF_INVALID, "%s: expected a number of 0 to %d, got \"%.64s\"", name, RANKS_MOST, text);
    *out = value;
    return LF_OK;
}

static enum lf_status fail_half(const char *there, const char *missing, struct lf_err *err)
{
    return lf_fail(err, LF_INVALID, "%s is set and %s is not", there, missing);
}

/* n_ranks is 0 where neither variable is set. */
static enum lf_status read_numbers(struct numbers *set, const struct environment *env, struct lf_err *err)
{
    const char *rank = value_of(env, set->rank_name), *size = value_of(env, set->size_name);
    set->n_ranks = 0;
    if (!rank && !size) return LF_OK;
    if (!size) return fail_half(set->rank_name, set->size_name, err);
    if (!rank) return fail_half(set->size_name, set->rank_name, err);
    enum lf_status status = read_number(&set->rank, set->rank_name, rank, err);
    if (status == LF_OK) status = read_number(&set->n_ranks, set->size_name, size, err);
    if (status == LF_OK && set->rank >= set->n_ranks)
        status = lf_fail(err, LF_INVALID, "%s is %d: expected less than %s, which is %d", set->rank_name, set->rank,
                         set->size_name, set->n_ranks);
    return status;
}

static enum lf_status agree(const struct numbers *a, const struct numbers *b, struct lf_err *err)
{
    if (a->rank != b->rank)
        return lf_fail(err, LF_INVALID, "%s is %d and %s is %d: expected the same rank", a->rank_name, a->rank,
                       b->rank_name, b->rank);
    if (a->n_ranks != b->n_ranks)
        return lf_fail(err, LF_INVALID, "%s is %d and %s is %d: expected the same number of ranks", a->size_name,
                       a->n_ranks, b->size_name, b->n_ranks);
    return LF_OK;
}

static enum lf_status choose_numbers(struct lf_launcher *out, const struct numbers *slurm,
                                     const struct environment *env, struct lf_err *err)
{
    struct numbers sets[] = {
        {.rank_name = "RANK", .size_name = "WORLD_SIZE"},
        {.rank_name = "OMPI_COMM_WORLD_RANK", .size_name = "OMPI_COMM_WORLD_SIZE"},
        {.rank_name = "PMI_RANK", .size_name = "PMI_SIZE"},
    };
    const struct numbers *chosen = NULL;
    for (size_t i = 0; i < LF_N_ELEMS(sets); i++) {
        enum lf_status status = read_numbers(&sets[i], env, err);
        if (status == LF_OK && sets[i].n_ranks > 0 && chosen) status = agree(chosen, &sets[i], err);
        if (status != LF_OK) return status;
        if (sets[i].n_ranks > 0 && !chosen) chosen = &sets[i];
    }
    if (!chosen && slurm->n_ranks > 0) chosen = slurm;
    if (!chosen) return LF_OK;
    out->by = chosen->rank_name;
    out->rank = chosen->rank;
    out->n_ranks = chosen->n_ranks;
    return LF_OK;
}

static enum lf_status write_address(struct lf_launcher *out, const char *name, const char *host, const char *port,
                                    struct lf_err *err)
{
    bool is_v6 = strchr(host, ':') != NULL && host[0] != '[';
    int n = snprintf(out->address, sizeof out->address, is_v6 ? "[%s]:%s" : "%s:%s", host, port);
    if (n >= (int)sizeof out->address)
        return lf_fail(err, LF_INVALID, "%s: expected a host of %d bytes at most", name, HOST_BYTES);
    return LF_OK;
}

static bool is_host_byte(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '.' ||
           c == '_';
}

/* The first of Slurm's list: "a", "a,b", "node[003-007,9]", "rack[1-2]node[1-4]x" is rack1node1x: of each bracket the
 * first number, with its zeros. False: it is no such list. */
static bool first_node(char out[HOST_BYTES], const char *list)
{
    size_t n = 0;
    const char *at = list;
    while (*at && *at != ',') {
        const char *end = NULL;
        if (*at == '[') {
            end = strchr(at, ']');
            if (!end || at[1] < '0' || at[1] > '9') return false;
            at++;
        }
        for (; end ? *at >= '0' && *at <= '9' : is_host_byte(*at); at++) {
            if (n + 1 >= HOST_BYTES) return false;
            out[n++] = *at;
        }
        if (end)
            at = end + 1;
        else if (*at && *at != ',' && *at != '[')
            return false;
    }
    out[n] = 0;
    return n > 0;
}

static enum lf_status read_slurm_address(struct lf_launcher *out, const struct environment *env, struct lf_err *err)
{
    static const char list_name[] = "SLURM_STEP_NODELIST", ip_name[] = "SLURM_LAUNCH_NODE_IPADDR";
    const char *list = value_of(env, list_name), *ip = value_of(env, ip_name);
    char host[HOST_BYTES], port[8];
    snprintf(port, sizeof port, "%d", LF_RENDEZVOUS_PORT);
    if (!list) return ip ? write_address(out, ip_name, ip, port, err) : LF_OK;
    if (!first_node(host, list))
        return lf_fail(err, LF_INVALID, "%s: expected names of nodes such as a,b or node[01-04], got \"%.128s\"",
                       list_name, list);
    return write_address(out, list_name, host, port, err);
}

enum lf_status lf_launcher_read(struct lf_launcher *out, const char *(*get)(const char *name, void *user), void *user,
                                struct lf_err *err)
{
    static const char host_name[] = "MASTER_ADDR", port_name[] = "MASTER_PORT";
    const struct environment env = {get, user};
    const char *host = value_of(&env, host_name), *port = value_of(&env, port_name);
    struct numbers slurm = {.rank_name = "SLURM_PROCID", .size_name = "SLURM_NTASKS"};
    struct lf_launcher found = {0};
    int port_number = 0;
    enum lf_status status = read_numbers(&slurm, &env, err);
    if (status == LF_OK) status = choose_numbers(&found, &slurm, &env, err);
    if (status == LF_OK && host && !port) status = fail_half(host_name, port_name, err);
    if (status == LF_OK && port && !host) status = fail_half(port_name, host_name, err);
    if (status == LF_OK && port) status = read_number(&port_number, port_name, port, err);
    if (status == LF_OK && port && (port_number < 1 || port_number > 65535))
        status = lf_fail(err, LF_INVALID, "%s: expected a port of 1 to 65535, got %d", port_name, port_number);
    if (status != LF_OK) return status;
    bool is_slurm = found.by && slurm.n_ranks == found.n_ranks && slurm.rank == found.rank;
    if (host)
        status = write_address(&found, host_name, host, port, err);
    else if (is_slurm)
        status = read_slurm_address(&found, &env, err);
    if (status == LF_OK) *out = found;
    return status;
}
