/* The HTTP server: sockets, deadlines and routes, on libmicrohttpd. Knows tokenizer and engine, sees no tensor. */
#ifndef LF_SERVER_HTTP_CONN_HTTP_SERVER_H
#define LF_SERVER_HTTP_CONN_HTTP_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/status.h"
#include "core/str.h"

struct lf_http_server;
struct lf_tokenizer;
struct lf_chat_template;
struct lf_engine;
struct lf_sampling_defaults;
struct lf_answer_vocabulary;

enum lf_keep_alive { LF_KEEP_ALIVE_COMMENT, LF_KEEP_ALIVE_CHUNK, LF_KEEP_ALIVE_OFF };

/* What the server's memory was planned for, in bytes; for those who look at it. */
struct lf_memory_shares {
    uint64_t weights, workspace, kv, host; /* kv: with states; host: the process, texts, tables; 0 on a GPU */
    int n_ranks;                           /* whose shares these are together; each has as much as any other */
    int n_cp;                              /* parts that contexts are divided into, of those */
};

/* Strings and arrays are borrowed until destroy. */
struct lf_http_opts {
    const char *host; /* numeric address or name to bind, "127.0.0.1" */
    int port;         /* 0: any free one */
    uint64_t max_body_bytes;
    int n_connections, n_connections_per_address; /* n_connections_per_address 0: no limit of its own */
    uint64_t text_bytes; /* memory for texts: lf_http_text_bytes, or what is wished; 0: by max_body_bytes alone */
    uint64_t document_memory_bytes; /* memory for documents; 0: LF_DOCUMENT_MEMORY_BYTES */
    uint64_t response_memory_bytes; /* memory for stored responses; 0: none is stored */
    uint64_t max_document_bytes;    /* of one text; 0: max_body_bytes */
    int64_t document_tokens;        /* of all documents of one key; 0: any number */
    const char *documents_dir; /* that documents are kept in over restarts; NULL: none. Locked before it is ready */
    int n_threads;             /* of libmicrohttpd's pool */
    int request_deadline_ms;   /* 0: none */
    int max_choices;           /* n */
    enum lf_keep_alive keep_alive;
    const char *metrics_prefix;         /* "longflash:" or "vllm:" */
    const char *api_keys_file;          /* one key a line; NULL: none */
    const char *api_keys_env;           /* value of the environment variable, comma separated; NULL: none */
    bool no_page;                       /* nothing at / */
    const char *const *cors_origins;    /* NULL-terminated; NULL: CORS off */
    const char *const *allowed_hosts;   /* NULL-terminated further Host values beside loopback names; NULL: only those
                                           when bound to loopback, any when not */
    const char *const *trusted_proxies; /* NULL-terminated addresses and networks; NULL: none */
    const char *model_id;               /* what answers call the model, and requests name as "model" */
    const char *const *model_aliases;   /* NULL-terminated further names, "*": any; NULL: none */
    int64_t model_created_s;
    const char *tool_parser;      /* name of an answer format; NULL: the one that the chat template shows */
    bool no_reasoning;            /* an answer's reasoning stays in its text */
    const char *version, *commit; /* of the program */
    const char *weight_format;    /* of the model's matrices, for /v1/models: "bf16" */
    const char *fingerprint;      /* of all that decides what is computed: fp_…; NULL: none is shown */
    const struct lf_answer_vocabulary *vocabulary; /* of the tokens; NULL: structured output is refused */
    const struct lf_sampling_defaults *sampling;   /* where requests do not say; NULL: LF_SAMPLING_PLAIN */
    int speculate;                                 /* where requests do not say: as in struct lf_gen_params */
    int default_max_tokens; /* completions without max_tokens: 16 as OpenAI has it; chat: what is left of the context */
    int header_deadline_ms, body_deadline_ms, slow_reader_ms, keep_alive_ms; /* 0: the defaults of limits.h / 10 s */
    struct lf_memory_shares memory;                                          /* all 0: not known */
};

/* The memory for texts by default: enough for any one request of max_body_bytes, and a share of memory_bytes (0: not
 * limited) for several at once. */
uint64_t lf_http_text_bytes(uint64_t max_body_bytes, uint64_t memory_bytes);
/* What any one request of max_body_bytes may need. */
uint64_t lf_http_text_bytes_least(uint64_t max_body_bytes);
/* What the server may hold in all, for the plan: texts, what it keeps (documents and responses), and the buffers of
 * connections. */
uint64_t lf_http_host_bytes(uint64_t text_bytes, uint64_t kept_bytes, int n_connections);

/* Binds and starts answering: /livez 200, /readyz 503 with loading progress, everything else 503 until
 * lf_http_server_ready. LF_IO: the address is in use or not ours (one line for the person at the terminal). */
LF_MUST_CHECK enum lf_status lf_http_server_create(struct lf_http_server **out, const struct lf_http_opts *opts,
                                                   struct lf_err *err);
/* Loading progress for /readyz, 0..1. Any thread. */
void lf_http_server_progress(struct lf_http_server *s, double fraction);
/* Before it is ready: documents of the process before have their names again, and are read again once it is. LF_IO
 * where it cannot be told which there are; LF_NO_MEMORY. */
LF_MUST_CHECK enum lf_status lf_http_server_load_documents(struct lf_http_server *s, struct lf_err *err);
/* From now on requests are served by these (borrowed until destroy). template may be NULL: chat is refused by name. */
void lf_http_server_ready(struct lf_http_server *s, const struct lf_tokenizer *tok, const struct lf_chat_template *chat,
                          struct lf_engine *engine);
/* /readyz 503, new generation requests 503; those in flight go on. */
void lf_http_server_drain(struct lf_http_server *s);
/* Requests in flight (generation requests not fully answered). */
int lf_http_server_n_in_flight(struct lf_http_server *s);
/* Reads the key file again (SIGHUP). On an error the old keys stay. */
LF_MUST_CHECK enum lf_status lf_http_server_reload_keys(struct lf_http_server *s, struct lf_err *err);
int lf_http_server_port(const struct lf_http_server *s); /* the one really bound */
/* docs/api.md, and the list of metrics in docs/operations.md: from the tables of routes, fields and metrics. */
void lf_http_api_docs(struct lf_buf *out);
void lf_http_metrics_docs(struct lf_buf *out);
/* Ends all connections, joins all threads, frees. */
void lf_http_server_destroy(struct lf_http_server *s); /* accepts NULL */

#endif
