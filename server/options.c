/* The table of settings, and the look-ups in it. A new setting is a field in struct lf_config and a row here; the
 * command line, the environment, the configuration file and --help follow. */
#include "server/options.h"

#include <ctype.h>
#include <limits.h>
#include <string.h>

#include "core/check.h"
#include "core/limits.h"

#define FIELD(f)    offsetof(struct lf_config, f)
#define SERVE       LF_COMMAND_SERVE
#define PLAN        LF_COMMAND_PLAN
#define RUN         LF_COMMAND_RUN
#define LOAD        LF_COMMAND_LOAD
#define TOKENIZE    LF_COMMAND_TOKENIZE
#define HEALTH      LF_COMMAND_HEALTH
#define MODELS      (SERVE | PLAN | RUN)
#define ALL         (MODELS | LOAD | TOKENIZE | HEALTH)
#define BYTES_N     ((int64_t)1 << 50)
#define KV_TOKENS_N ((int64_t)INT32_MAX * LF_KV_BLOCK_TOKENS)

const struct lf_option lf_options[] = {
    /* model */
    {"model", LF_OPTION_STRING, FIELD(model), 0, 0, NULL, "demo/model", "DIR",
     "model directory: config.json, *.safetensors, tokenizer.json or tokenizer.model", MODELS | TOKENIZE,
     LF_GROUP_MODEL},
    {"load", LF_OPTION_CHOICE, FIELD(load_choice), 0, 0, "files|dummy", "files", "HOW",
     "files: weights from the directory; dummy: random weights of the same shapes, from config.json alone, to measure "
     "a model without having it; in a directory without a tokenizer, texts are token ids with spaces between them",
     MODELS, LF_GROUP_MODEL},
    {"load", LF_OPTION_CHOICE, FIELD(load_choice), 0, 0, "files|dummy", "files", "HOW",
     "dummy: a directory without a tokenizer will do; its texts are token ids with spaces between them", TOKENIZE,
     LF_GROUP_MODEL},
    {"seed", LF_OPTION_SIZE, FIELD(seed), 0, INT64_MAX, NULL, "0", "N", "seed of the dummy weights", SERVE,
     LF_GROUP_MODEL},
    {"seed", LF_OPTION_SIZE, FIELD(seed), 0, INT64_MAX, NULL, "0", "N", "seed of sampling and of the dummy weights",
     RUN, LF_GROUP_COMMAND},
    {"seed", LF_OPTION_SIZE, FIELD(seed), 0, INT64_MAX, NULL, "0", "N", "seed of the prompts; 0: another each time",
     LOAD, LF_GROUP_COMMAND},
    {"model-id", LF_OPTION_STRING, FIELD(model_id), 0, 0, NULL, "", "NAME",
     "what /v1/models lists and requests name as \"model\" (default: the last part of the directory's path)", SERVE,
     LF_GROUP_MODEL},

    /* memory */
    {"ctx", LF_OPTION_INT, FIELD(ctx), 0, LF_CONTEXT_TOKENS, NULL, "0", "TOKENS",
     "longest prompt + answer of one request; 0: what the model was made for", MODELS, LF_GROUP_MEMORY},
    {"memory", LF_OPTION_SIZE, FIELD(memory), 0, BYTES_N, NULL, "0", "BYTES",
     "ceiling for the whole process, on a GPU for what it puts into the GPU's memory; 0: four fifths of what is "
     "available, on a GPU 97 in 100",
     MODELS, LF_GROUP_MEMORY},
    {"kv-tokens", LF_OPTION_SIZE, FIELD(kv_tokens), 0, KV_TOKENS_N, NULL, "0", "TOKENS",
     "KV cache of exactly this many tokens; 0: what memory gives", MODELS, LF_GROUP_MEMORY},
    {"kv-dtype", LF_OPTION_CHOICE, FIELD(kv_dtype), 0, 0, "auto|f32|bf16", "auto", "TYPE",
     "element type of the KV cache; auto: f32 for a model in f32, bf16 for all others; on a GPU auto only, which is "
     "f16 "
     "for a model in f16, bf16 for all others",
     MODELS, LF_GROUP_MEMORY},
    {"prefix-cache", LF_OPTION_SWITCH, FIELD(prefix_cache), 0, 0, NULL, "on", "on|off",
     "keep the KV blocks of finished requests, so that the same document is not read twice", SERVE, LF_GROUP_MEMORY},
    {"concurrency", LF_OPTION_INT, FIELD(concurrency), 0, LF_QUEUE_N, NULL, "0", "N",
     "requests of --ctx tokens that must fit at once; 0: one", SERVE | PLAN, LF_GROUP_MEMORY},

    /* device */
    {"device", LF_OPTION_STRING, FIELD(device), 0, 0, NULL, "auto", "NAME",
     "cpu, or cuda:N for a GPU; auto: the first GPU where this build and the machine have one, else the CPU", MODELS,
     LF_GROUP_DEVICE},
    {"threads", LF_OPTION_INT, FIELD(threads), 0, LF_THREADS_N, NULL, "0", "N",
     "worker threads; 0: one for each CPU this process may run on, on a GPU 16 of them at most", MODELS,
     LF_GROUP_DEVICE},
    {"isa", LF_OPTION_CHOICE, FIELD(isa), 0, 0, "auto|c|avx2|avx512|avx512-bf16|amx", "auto", "ISA",
     "instruction set of the CPU not to be exceeded", MODELS, LF_GROUP_DEVICE},

    {"gpu-memory", LF_OPTION_SIZE, FIELD(gpu_memory), 0, BYTES_N, NULL, "0", "BYTES",
     "plan for a GPU of so much memory, whether this machine has it or not; 1.5 GiB of it are counted as the driver's",
     PLAN, LF_GROUP_DEVICE},
    {"gpu-sms", LF_OPTION_INT, FIELD(gpu_sms), 0, 1024, NULL, "0", "N",
     "multiprocessors of the GPU of --gpu-memory; 0: 132, as an H100 has", PLAN, LF_GROUP_DEVICE},

    /* scheduling */
    {"chunk", LF_OPTION_INT, FIELD(chunk), 0, LF_STEP_TOKENS_N, NULL, "0", "TOKENS",
     "tokens of one step at most; sizes the workspace, not the context; 0: 512, on a GPU 8192, or --max-seqs if more",
     MODELS, LF_GROUP_SCHEDULE},
    {"max-seqs", LF_OPTION_INT, FIELD(max_seqs), 0, LF_RUNNING_MAX_N, NULL, "0", "N",
     "requests that run at once at most; 0: 64", SERVE | PLAN, LF_GROUP_SCHEDULE},
    {"step-ms", LF_OPTION_INT, FIELD(step_ms), 0, 60000, NULL, "0", "MS",
     "time a step may take: what a running answer waits for its next token while documents are being read; 0: 100, "
     "on a GPU 50",
     SERVE, LF_GROUP_SCHEDULE},
    {"queue", LF_OPTION_INT, FIELD(queue), 1, LF_QUEUE_MAX_N, NULL, "256", "N", "waiting requests at most; past it 429",
     SERVE, LF_GROUP_SCHEDULE},
    {"watchdog", LF_OPTION_INT, FIELD(watchdog), 0, 86400, NULL, "60", "SECONDS",
     "no step for so long with work queued: the process ends with status 1; 0: off", SERVE, LF_GROUP_SCHEDULE},

    /* HTTP */
    {"host", LF_OPTION_STRING, FIELD(host), 0, 0, NULL, "127.0.0.1", "ADDRESS",
     "address to listen on; anything but loopback needs keys or --insecure-no-auth", SERVE, LF_GROUP_HTTP},
    {"port", LF_OPTION_INT, FIELD(port), 0, 65535, NULL, "8080", "N", "port to listen on; 0: any free one", SERVE,
     LF_GROUP_HTTP},
    {"api-keys-file", LF_OPTION_STRING, FIELD(api_keys_file), 0, 0, NULL, "", "FILE",
     "one key a line; SIGHUP reads it again. Keys may also stand, separated by commas, in LONGFLASH_API_KEYS", SERVE,
     LF_GROUP_HTTP},
    {"insecure-no-auth", LF_OPTION_FLAG, FIELD(insecure_no_auth), 0, 0, NULL, "off", NULL,
     "listen beyond loopback without keys: anyone who reaches the port may use it", SERVE, LF_GROUP_HTTP},
    {"cors-origin", LF_OPTION_LIST, FIELD(cors_origin), 0, 0, NULL, "", "ORIGIN",
     "allow browsers' requests from this origin; may be given several times", SERVE, LF_GROUP_HTTP},
    {"allowed-host", LF_OPTION_LIST, FIELD(allowed_host), 0, 0, NULL, "", "NAME",
     "accept this Host header beside the loopback names; may be given several times", SERVE, LF_GROUP_HTTP},
    {"max-body", LF_OPTION_SIZE, FIELD(max_body), 1024, (int64_t)1 << 30, NULL, "10M", "BYTES",
     "largest request body; past it 413", SERVE, LF_GROUP_HTTP},
    {"request-timeout", LF_OPTION_INT, FIELD(request_timeout), 1, 86400, NULL, "600", "SECONDS",
     "a request that takes longer is ended", SERVE, LF_GROUP_HTTP},
    {"drain-timeout", LF_OPTION_INT, FIELD(drain_timeout), 0, 86400, NULL, "30", "SECONDS",
     "what requests in flight may take after SIGTERM; then they are ended and told so", SERVE, LF_GROUP_HTTP},
    {"keep-alive", LF_OPTION_CHOICE, FIELD(keep_alive), 0, 0, "comment|chunk|off", "comment", "HOW",
     "what a silent stream sends every 10 s", SERVE, LF_GROUP_HTTP},
    {"metrics-prefix", LF_OPTION_CHOICE, FIELD(metrics_prefix), 0, 0, "longflash|vllm", "longflash", "PREFIX",
     "prefix of the names in /metrics", SERVE, LF_GROUP_HTTP},

    /* of single commands */
    {"json", LF_OPTION_FLAG, FIELD(json), 0, 0, NULL, "off", NULL, "print the plan as one JSON object", PLAN,
     LF_GROUP_COMMAND},
    {"document", LF_OPTION_STRING, FIELD(document), 0, 0, NULL, "", "FILE",
     "the document to read; \"-\" for standard input", RUN, LF_GROUP_COMMAND},
    {"max-tokens", LF_OPTION_INT, FIELD(max_tokens), 1, LF_CONTEXT_TOKENS, NULL, "512", "N", "longest answer", RUN,
     LF_GROUP_COMMAND},
    {"temperature", LF_OPTION_REAL, FIELD(temperature), 0, 2, NULL, "0", "X", "0: the likeliest token each time", RUN,
     LF_GROUP_COMMAND},
    {"raw", LF_OPTION_FLAG, FIELD(raw), 0, 0, NULL, "off", NULL,
     "no chat template: the text as it is, special tokens recognized, as in /v1/completions", RUN, LF_GROUP_COMMAND},
    {"raw", LF_OPTION_FLAG, FIELD(raw), 0, 0, NULL, "off", NULL, "no BOS, and special tokens are ordinary text",
     TOKENIZE, LF_GROUP_COMMAND},
    {"decode", LF_OPTION_FLAG, FIELD(decode), 0, 0, NULL, "off", NULL, "the arguments are ids: print their text",
     TOKENIZE, LF_GROUP_COMMAND},
    {"count", LF_OPTION_FLAG, FIELD(count), 0, 0, NULL, "off", NULL, "print the number of tokens only", TOKENIZE,
     LF_GROUP_COMMAND},
    {"url", LF_OPTION_STRING, FIELD(url), 0, 0, NULL, "http://127.0.0.1:8080", "URL",
     "the server; its key, if it needs one, is the first of LONGFLASH_API_KEYS", LOAD, LF_GROUP_COMMAND},
    {"url", LF_OPTION_STRING, FIELD(url), 0, 0, NULL, "http://127.0.0.1:8080", "URL", "the server; no key is needed",
     HEALTH, LF_GROUP_COMMAND},
    {"concurrency", LF_OPTION_STRING, FIELD(levels), 0, 0, NULL, "1,4", "LIST", "requests at once, a test each", LOAD,
     LF_GROUP_COMMAND},
    {"lengths", LF_OPTION_STRING, FIELD(lengths), 0, 0, NULL, "1K,8K", "LIST", "prompt tokens, a test each", LOAD,
     LF_GROUP_COMMAND},
    {"output-tokens", LF_OPTION_INT, FIELD(output_tokens), 1, 65536, NULL, "32", "N", "tokens to generate per request",
     LOAD, LF_GROUP_COMMAND},
    {"rounds", LF_OPTION_INT, FIELD(rounds), 1, 10000, NULL, "2", "N", "requests of each client in one test", LOAD,
     LF_GROUP_COMMAND},
    {"shared-prefix", LF_OPTION_INT, FIELD(shared_prefix), 0, LF_CONTEXT_TOKENS, NULL, "0", "TOKENS",
     "leading tokens that all prompts share, for the prefix cache to find", LOAD, LF_GROUP_COMMAND},
    {"csv", LF_OPTION_STRING, FIELD(csv), 0, 0, NULL, "", "FILE", "also write the results as CSV", LOAD,
     LF_GROUP_COMMAND},
    {"find-limit", LF_OPTION_FLAG, FIELD(find_limit), 0, 0, NULL, "off", NULL,
     "search the longest prompt and the highest concurrency that are served within the bounds, and say what refused "
     "beyond them",
     LOAD, LF_GROUP_COMMAND},
    {"ttft-ms", LF_OPTION_INT, FIELD(ttft_ms), 0, INT_MAX, NULL, "0", "MS",
     "bound on the time to first token (p90); 0: none", LOAD, LF_GROUP_COMMAND},
    {"itl-ms", LF_OPTION_INT, FIELD(itl_ms), 0, INT_MAX, NULL, "0", "MS",
     "bound on the time between tokens (p90), as they arrive: those of one packet are 0 apart; 0: none", LOAD,
     LF_GROUP_COMMAND},

    /* other */
    {"config", LF_OPTION_STRING, FIELD(config), 0, 0, NULL, "", "FILE",
     "JSON file of settings (\"max_seqs\" for --max-seqs); \"comment\" keys are for people", ALL, LF_GROUP_OTHER},
    {"log-level", LF_OPTION_CHOICE, FIELD(log_level), 0, 0, "debug|info|warn|error", "info", "LEVEL",
     "least level that is logged", SERVE | RUN, LF_GROUP_OTHER},
    {"log-file", LF_OPTION_STRING, FIELD(log_file), 0, 0, NULL, "", "FILE",
     "log here and not on standard error; SIGHUP opens it again", SERVE, LF_GROUP_OTHER},
    {"help", LF_OPTION_FLAG, FIELD(help), 0, 0, NULL, "off", NULL, "this page", ALL, LF_GROUP_OTHER},
};
const int lf_options_n = (int)LF_N_ELEMS(lf_options);

const struct lf_option *lf_option_find(const char *name, size_t name_len, unsigned command)
{
    for (int i = 0; i < lf_options_n; i++) {
        const struct lf_option *o = &lf_options[i];
        if (command && !(o->commands & command)) continue;
        if (strlen(o->name) == name_len && memcmp(o->name, name, name_len) == 0) return o;
    }
    return NULL;
}

/* Levenshtein distance of two short words (Wagner & Fischer 1974); large where either is too long to be a name. */
static int distance(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    int row[65];
    if (n > 64 || m > 64) return 1000;
    for (size_t j = 0; j <= m; j++) row[j] = (int)j;
    for (size_t i = 1; i <= n; i++) {
        int diagonal = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= m; j++) {
            int best = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            best = LF_MIN(best, row[j] + 1);
            row[j] = LF_MIN(best, row[j - 1] + 1);
        }
    }
    return row[m];
}

const struct lf_option *lf_option_nearest(const char *name, unsigned command)
{
    const struct lf_option *best = NULL;
    int best_distance = 4; /* three letters off is still a slip */
    for (int i = 0; i < lf_options_n; i++) {
        if (!(lf_options[i].commands & command)) continue;
        int d = distance(name, lf_options[i].name);
        if (d < best_distance) {
            best_distance = d;
            best = &lf_options[i];
        }
    }
    return best;
}

/* The name with dashes as underscores. */
static void underscored(const char *name, char *out)
{
    size_t n = strlen(name);
    LF_ASSERT(n < 48);
    for (size_t i = 0; i <= n; i++) out[i] = name[i] == '-' ? '_' : name[i];
}

void lf_option_json_name(const struct lf_option *option, char out[64])
{
    underscored(option->name, out);
}

void lf_option_env_name(const struct lf_option *option, char out[64])
{
    static const char prefix[] = "LONGFLASH_";
    memcpy(out, prefix, sizeof(prefix) - 1);
    underscored(option->name, out + sizeof(prefix) - 1);
    for (char *c = out; *c; c++) *c = (char)toupper((unsigned char)*c);
}
