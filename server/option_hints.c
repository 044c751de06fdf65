/* Whoever comes from vLLM or llama.cpp types what they know from there. Such an option stays refused, for it is not the
 * same thing with another name, but the refusal says what to type here. A name that LongFlash has too is no row. */
#include "server/option_hints.h"

#include <string.h>

#include "core/check.h"

#define ONE_GPU                                                                                                        \
    "--parallel tp=N divides each layer over GPUs; for copies of a model start a server for each (--device cuda:N)"
#define PROXY  "TLS is a proxy's (docs/operations.md)"
#define TYPE   "it follows from the type that the weights are stored in"
#define ALWAYS "it is always on"
#define IN_DIR "it is read from the model's directory"
#define NONE   "not implemented"

const struct lf_option_hint lf_option_hints[] = {
    /* vLLM */
    {"--max-model-len", "ctx", NULL},
    {"--gpu-memory-utilization", "memory", "a size and not a share; on a GPU 97 in 100 of what is free is the default"},
    {"--max-num-seqs", "max-seqs", NULL},
    {"--max-num-batched-tokens", "chunk", NULL},
    {"--tensor-parallel-size -tp", "parallel", "as tp=N; on GPUs those from --device on"},
    {"--decode-context-parallel-size -dcp --prefill-context-parallel-size -pcp", "parallel",
     "as cp=N, of prompts and answers alike"},
    {"--pipeline-parallel-size -pp --data-parallel-size -dp", NULL, ONE_GPU},
    {"--dtype", NULL, TYPE},
    {"--kv-cache-dtype", "kv-dtype", NULL},
    {"--enable-prefix-caching", "prefix-cache", "which is on unless it is turned off"},
    {"--no-enable-prefix-caching", "prefix-cache", "with \"off\""},
    {"--enable-chunked-prefill", NULL, ALWAYS},
    {"--kv-offloading-size --swap-space", "cache-memory", "below a GPU's cache"},
    {"--kv-transfer-config", "cache-dir", "on a disk, over restarts; --cache-memory is memory below a GPU's cache"},
    {"--num-gpu-blocks-override", "kv-tokens", "in tokens: 64 to a block"},
    {"--api-key", "api-keys-file", "or the variable LONGFLASH_API_KEYS: a command line is seen by all users"},
    {"--revision", "model", "with the revision behind the name: ORG/NAME@REVISION"},
    {"--download-dir", NULL, "nothing is downloaded; HF_HUB_CACHE says where models are looked for"},
    {"--load-format", "load", NULL},
    {"--tokenizer", NULL, IN_DIR},
    {"--chat-template --chat-template-file", NULL, IN_DIR},
    {"--trust-remote-code", NULL, "no code of a model is run"},
    {"--quantization -q", "quantize", "of plain weights; what a quantized checkpoint is, its config.json says"},
    {"--allowed-origins", "cors-origin", NULL},
    {"--uvicorn-log-level", "log-level", NULL},
    {"--ssl-keyfile --ssl-certfile --ssl-key-file --ssl-cert-file", NULL, PROXY},
    {"--enable-lora --lora --lora-modules", NULL, NONE ": merge the adapter into its model first"},
    {"--hf-overrides", "max-position", "for positions; all else is what config.json says"},
    {"--speculative-config", "speculate", "from the prompt: there are no draft models"},
    {"--enable-auto-tool-choice --tool-call-parser --reasoning-parser", NULL, NONE},

    /* llama.cpp */
    {"-m", "model", NULL},
    {"-hf --hf-repo -hfr", "model", "ORG/NAME, from this machine's Hugging Face cache"},
    {"-c --ctx-size", "ctx", NULL},
    {"-n --predict --n-predict", "max-tokens", "a server is told by each request (max_tokens)"},
    {"-ngl --n-gpu-layers --gpu-layers", "device", "cpu or a GPU; all layers are on the one or the other"},
    {"-np", "max-seqs", "and --ctx is for each request, not divided among them"},
    {"-t -tb --threads-batch", "threads", NULL},
    {"-b --batch-size -ub --ubatch-size", "chunk", NULL},
    {"-cb --cont-batching", NULL, ALWAYS},
    {"-fa --flash-attn", NULL, ALWAYS},
    {"-ctk --cache-type-k -ctv --cache-type-v", "kv-dtype", "of K and V alike"},
    {"--slot-save-path", "cache-dir", "and nothing has to be saved or restored by name"},
    {"-mg --main-gpu", "device", NULL},
    {"-ts --tensor-split -sm --split-mode", NULL, ONE_GPU},
    {"--rope-scale --yarn-orig-ctx", "rope-scaling", "by how much follows from --max-position"},
    {"--rope-freq-base --rope-freq-scale", NULL, "it is read from config.json"},
    {"--mlock --no-mmap", NULL, "nothing is mapped: the weights are read into memory"},
    {"-a --alias", "served-model-name", NULL},
    {"--api-key-file", "api-keys-file", NULL},
    {"-to --timeout", "request-timeout", NULL},
    {"--metrics", NULL, "/metrics is always there"},
    {"--jinja", NULL, ALWAYS},
    {"--draft --draft-n --draft-max", "speculate", "from the prompt: there are no draft models"},
    {"--model-draft -md", NULL, NONE "; --speculate takes tokens from the prompt"},
    {"-f --file", "document", NULL},
    {"--temp", "temperature", "a server is told by each request"},
    {"-s", "seed", NULL},
    {"--verbose", "log-level", "with \"debug\""},
};
const int lf_option_hints_n = (int)LF_N_ELEMS(lf_option_hints);

static bool has_name(const char *theirs, const char *typed, size_t len)
{
    while (*theirs) {
        size_t n = strcspn(theirs, " ");
        if (n == len && memcmp(theirs, typed, len) == 0) return true;
        theirs += n + (theirs[n] == ' ');
    }
    return false;
}

const struct lf_option_hint *lf_option_hint_find(const char *typed, size_t len)
{
    for (int i = 0; i < lf_option_hints_n; i++)
        if (has_name(lf_option_hints[i].theirs, typed, len)) return &lf_option_hints[i];
    return NULL;
}

void lf_option_hint_print(const struct lf_option_hint *hint, enum lf_command command, struct lf_buf *out)
{
    if (hint->ours) {
        const struct lf_option *o = lf_option_find(hint->ours, strlen(hint->ours), command);
        bool here = o != NULL;
        if (!here) o = lf_option_find(hint->ours, strlen(hint->ours), 0);
        LF_ASSERT(o != NULL);
        lf_buf_printf(out, "here that is --%s%s%s", o->name, o->arg ? " " : "", o->arg ? o->arg : "");
        if (!here) lf_buf_cstr(out, ", which this command does not have");
    }
    if (hint->say) lf_buf_printf(out, "%s%s", hint->ours ? ", " : "", hint->say);
}
