/* The configuration of a command: every setting the program knows, from one table (options.c).
 *
 * A setting comes from the command line, else from the environment (LONGFLASH_MAX_SEQS for --max-seqs), else from the
 * file named by --config ("max_seqs" for --max-seqs), else from the table's default. A value that cannot be meant is
 * refused with one line that names the source, what was expected and what came. */
#ifndef LF_SERVER_CONFIG_H
#define LF_SERVER_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "core/arena.h"
#include "core/status.h"

/* Commands, as bits: a row of the table says which of them take it. */
enum lf_command {
    LF_COMMAND_SERVE = 1,
    LF_COMMAND_PLAN = 2,
    LF_COMMAND_RUN = 4,
    LF_COMMAND_LOAD = 8,
    LF_COMMAND_TOKENIZE = 16,
    LF_COMMAND_HEALTH = 32,
    LF_COMMAND_DOCUMENTS = 64,
    LF_COMMAND_QUANTIZE = 128
};

enum { LF_CONFIG_LIST_N = 64, LF_CONFIG_ARGS_N = 64 };

#define LF_CACHE_DISK_BYTES ((uint64_t)64 << 30)

/* --speculate where nobody says: LF_SPECULATION_OFF or LF_SPECULATION_AUTO (server/engine/speculation.h). */
enum { LF_SPECULATE_DEFAULT = 0 };

enum lf_kv_choice { LF_KV_AUTO, LF_KV_F32, LF_KV_BF16, LF_KV_FP8 };

/* Strings and lists live in the arena; lists end with NULL, and an empty list is NULL. */
struct lf_config {
    /* model and memory */
    const char *model; /* a directory, or a model of the Hugging Face cache */
    int load_choice;   /* an lf_load */
    int quantize;      /* of --quantize's choices; 0: none (lf_runtime_model_opts) */
    uint64_t seed;
    int ctx;                  /* tokens; 0: the model's; LF_OPTION_WORD: what fits */
    int max_position;         /* tokens; 0: what the model was made for */
    const char *rope_scaling; /* "yarn", "yarn:TOKENS"; NULL: the model's */
    uint64_t memory;
    uint64_t kv_tokens;
    int kv_dtype; /* an lf_kv_choice */
    bool no_fusion;
    bool prefix_cache;
    const char *cache_dir;                  /* where blocks are kept over restarts; NULL: nowhere */
    uint64_t cache_disk;                    /* bytes there; 0: LF_CACHE_DISK_BYTES */
    uint64_t cache_memory;                  /* bytes of the host's memory for blocks of a GPU's cache; 0: none */
    bool cache_meet;                        /* on a GPU, too, computing and loading meet (server/engine/restore.h) */
    uint64_t document_memory, max_document; /* bytes; max_document 0: as max_body */
    uint64_t document_tokens;               /* of a key's documents; 0: any number */
    uint64_t response_memory;               /* bytes; 0: no response is stored */
    uint64_t text_memory;                   /* bytes; 0: by the sizes of bodies and memory */
    int chunk;
    int max_seqs;
    int snapshots; /* 0: by default */
    int concurrency;

    /* device */
    const char *device;
    int threads;
    const char *parallel;                                 /* "tp=N", "auto"; NULL: one rank */
    const char *rank, *ranks_address, *ranks_secret_file; /* of ranks that are processes; NULL: threads */
    int ranks_timeout;                                    /* s */
    int isa;                                              /* 0: the best there is, else an lf_isa + 1 */
    uint64_t gpu_memory;                                  /* plan: not 0 for a GPU that need not be there */
    int gpu_sms, gpus, forecast;                          /* 0: by default */

    /* scheduling */
    int step_ms;
    int speculate; /* tokens, LF_SPECULATION_OFF or LF_SPECULATION_AUTO */
    int queue;
    int watchdog;

    /* HTTP */
    const char *host;
    int port;
    const char *model_id;
    const char *const *served_model_name;
    const char *tool_parser;
    int reasoning;         /* 0: split off where the model has it; 1: left in the text */
    int generation_config; /* 0: the model's sampling defaults hold; 1: none do */
    const char *api_keys_file;
    const char *api_keys_env; /* the value of LONGFLASH_API_KEYS, borrowed from the environment; NULL: unset */
    bool insecure_no_auth;
    bool no_page;
    const char *const *cors_origin;
    const char *const *allowed_host;
    const char *const *trusted_proxy;
    uint64_t max_body;
    int n_connections, n_connections_per_address; /* the latter 0: no limit of its own */
    int request_timeout;                          /* seconds; 0: none */
    int drain_timeout;
    int keep_alive;     /* an lf_keep_alive */
    int metrics_prefix; /* 0: longflash, 1: vllm */

    /* log */
    int log_level; /* an lf_log_level */
    const char *log_file;

    /* run, tokenize */
    const char *document;
    int max_tokens;
    double temperature;
    bool raw;
    bool ops, profile; /* plan */
    bool decode;
    const char *json_schema; /* a file; run, load */
    const char *tools;       /* a file; run */
    const char *regex;
    const char *const *choice;
    bool count;

    /* load, health */
    const char *url;
    int dialect;        /* 0: chat with documents or a workload, else completions; else an lf_load_dialect + 1 */
    const char *levels; /* load --concurrency */
    const char *lengths;
    int workload;      /* load: an lf_workload */
    int output_tokens; /* 0: what the workload has */
    int rounds;
    int shared_prefix;
    int n_documents; /* load --documents; 0: prompts have their text in them */
    double zipf;
    const char *csv;
    bool find_limit;
    int ttft_ms;
    int itl_ms;

    bool all; /* documents rm */

    int quantize_to; /* quantize: of --to's choices */
    const char *out; /* a directory to make */

    const char *config;
    bool json;
    bool help;

    const char *args[LF_CONFIG_ARGS_N]; /* what is no option, in order; borrowed from argv */
    int n_args;
    struct lf_arena arena;
};

/* Reads the configuration of a command from argv (without program and command names), the environment and the file.
 * LF_INVALID and LF_NOT_FOUND with a line for the terminal. On any status the config may be deinitialized. */
LF_MUST_CHECK enum lf_status lf_config_read(struct lf_config *out, enum lf_command command, int argc, char *const *argv,
                                            char *const *env, struct lf_err *err);
void lf_config_deinit(struct lf_config *config); /* accepts a zeroed one */

/* A count or a size with an optional K, M, G or T (powers of 1024); false where text is none or past 2⁶³ - 1. */
bool lf_config_parse_size(const char *text, uint64_t *out);

#endif
