/* Every bound of the program in one place.
 *
 * A buffer, a queue or a recursion that can grow names its ceiling here, and each of these has a test at the limit
 * and one past it. Sizes are bytes unless the name says otherwise. */
#ifndef LF_CORE_LIMITS_H
#define LF_CORE_LIMITS_H

enum {
    /* errors and logs */
    LF_ERR_MESSAGE_BYTES = 512,
    LF_LOG_LINE_BYTES = 1024,

    /* HTTP */
    LF_BODY_BYTES = 10 * 1024 * 1024, /* default of --max-body */
    LF_URI_BYTES = 8 * 1024,
    LF_HEADERS_BYTES = 32 * 1024,
    LF_HEADERS_N = 100,
    LF_CONNECTIONS_N = 1024,           /* default of --connections */
    LF_CONNECTIONS_PER_ADDRESS_N = 64, /* default of --connections-per-address */
    LF_CONNECTIONS_MIN_N = 16,         /* --connections at least */
    LF_CONNECTIONS_MAX_N = 64 * 1024,  /* both at most */
    LF_TRUSTED_PROXIES_N = 64,         /* --trusted-proxy at most */
    LF_FORWARDED_LINES_N = 8,          /* X-Forwarded-For of one request: its last lines count */
    LF_IN_FLIGHT_PER_KEY_N = 32,
    LF_HEADER_DEADLINE_MS = 10 * 1000,
    LF_BODY_DEADLINE_MS = 30 * 1000,
    LF_SLOW_READER_MS = 30 * 1000,
    LF_API_KEYS_N = 1024,
    LF_REQUEST_ID_BYTES = 64,     /* of a client's own */
    LF_SHOWN_BYTES = 128,         /* of a request's text in a message, with its end */
    LF_CORS_HEADERS_BYTES = 2048, /* names of headers in the answer to a preflight, with their end */
    LF_HEADER_NAME_BYTES = 128,   /* one of these names */

    /* JSON of a request */
    LF_JSON_DEPTH = 64,
    LF_JSON_NODES = 250000,
    LF_JSON_NUMBER_BYTES = 4095, /* digits, point and exponent of a number, also in a file */
    /* JSON of a model directory: tokenizer.json of a 256K vocabulary has about 1.5 million nodes */
    LF_JSON_FILE_NODES = 8000000,
    LF_JSON_FILE_BYTES = 256 * 1024 * 1024,

    /* a request */
    LF_MESSAGES_N = 2048,
    LF_MESSAGE_CALLS_N = 256, /* calls of tools in one message */
    LF_PROMPTS_N = 1024,      /* prompts in one /v1/completions request, times choices; a key's limit may be lower */
    LF_STOP_N = 4,
    LF_STOP_BYTES = 256,
    LF_STOP_TOKENS_N = 64,
    LF_CHOICES_N = 8,          /* n */
    LF_MODEL_NAME_BYTES = 255, /* of --served-model-name */
    LF_LOGIT_BIAS_N = 300,
    LF_BAD_WORDS_N = 256,     /* bad_words of a request */
    LF_BAD_WORD_BYTES = 1024, /* of each */
    LF_TOP_LOGPROBS_N = 20,

    /* documents (server/documents/documents.h) */
    LF_DOCUMENT_NAME_BYTES = 128,
    LF_DOCUMENTS_N = 10000,                      /* of all tenants at once */
    LF_DOCUMENT_MEMORY_BYTES = 32 * 1024 * 1024, /* default of --document-memory */
    LF_ASK_DOCUMENTS_N = 64,                     /* in the messages of one request */

    /* stored responses (server/http/api/response_store.h) */
    LF_RESPONSES_N = 1024,                       /* of all tenants at once */
    LF_RESPONSE_MEMORY_BYTES = 16 * 1024 * 1024, /* default of --response-memory */
    LF_RESPONSE_TTL_S = 24 * 60 * 60,

    /* scheduler */
    LF_QUEUE_N = 256,
    LF_QUEUE_MAX_N = 64 * 1024,   /* --queue at most */
    LF_RUNNING_N = 64,            /* default of --max-seqs */
    LF_RUNNING_MAX_N = 1024,      /* --max-seqs at most */
    LF_STEP_TOKENS_N = 64 * 1024, /* --chunk at most */
    LF_SNAPSHOTS_N = 64 * 1024,   /* --snapshots at most, and by default */
    LF_MASK_THREADS_N = 4,        /* that compute masks of grammars beside the engine (server/engine/masks.h) */

    /* memory for texts (core/text_memory.h): bodies, what is made of them, and replies; part of the plan */
    LF_TEXT_BYTES_MIN = 16 * 1024 * 1024,
    LF_TEXT_SPARE_BYTES = 8 * 1024 * 1024, /* of it, for small texts alone, that is … */
    LF_TEXT_SMALL_BYTES = 1024 * 1024,     /* … up to so many bytes each */
    LF_ANSWER_COUNTED_N = 1024, /* tokens of an answer that a request in the engine counts for from the start */
    LF_TEXT_BODIES_N = 12,      /* by default, in units of the largest body … */
    LF_TEXT_SHARE = 8,          /* … but at most this part of --memory, as long as one such body can be worked on */
    LF_CONN_POOL_BYTES = 96 * 1024, /* libmicrohttpd's memory of one connection: head, parsed fields, body window */

    /* tokenizers */
    LF_TOKEN_BYTES = 4096,                       /* the text of one token */
    LF_TOKENS_AROUND_N = 64,                     /* that a post-processor puts before or behind a text */
    LF_TOKENIZER_TEXT_BYTES = 512 * 1024 * 1024, /* a text to encode */
    LF_REGEX_STEPS_BASE = 1024 * 1024,           /* of all patterns on one text, beside … */
    LF_REGEX_STEPS_PER_BYTE = 64,                /* … so many for each byte of it */
    LF_UNIGRAM_NESTED_N = 512,                   /* pieces that begin with one another */
    LF_CHARSMAP_KEY_BYTES = 256,                 /* what a normalization rule of sentencepiece replaces */

    /* chat templates */
    LF_TEMPLATE_STEPS = 1000000,
    LF_TEMPLATE_OUTPUT_BYTES = 8 * 1024 * 1024,
    LF_TEMPLATE_DEPTH = 128,
    LF_TEMPLATE_RANGE_N = 1000000,
    LF_TEMPLATE_SOURCE_BYTES = 1024 * 1024,

    /* grammars (grammar/grammar.h): what one of them may cost to compile, and an answer under it */
    LF_GRAMMAR_STEPS = 8000000,                  /* of compiling, of some nanoseconds each: well under 100 ms */
    LF_GRAMMAR_SCRATCH_BYTES = 64 * 1024 * 1024, /* while it is compiled */
    LF_GRAMMAR_BYTES = 32 * 1024 * 1024,         /* of a compiled one */
    LF_GRAMMAR_SOURCE_BYTES = 1024 * 1024,       /* a schema, a pattern, a list of choices */
    LF_GRAMMAR_STATES_N = 60000,                 /* of one byte automaton */
    LF_GRAMMAR_REPEAT_N = 10000,                 /* {n,m} in a pattern */
    LF_GRAMMAR_REGEX_DEPTH = 64,                 /* groups in groups */
    LF_GRAMMAR_UNROLLED_N = 20000,               /* minItems, maxItems, minProperties, maxProperties */
    LF_GRAMMAR_MULTIPLE = 1000,                  /* multipleOf */
    LF_GRAMMAR_DIGITS_N = 64,                    /* before the point of a number, and behind it */
    LF_GRAMMAR_BOUND_DIGITS_N = 400,             /* the same of a bound or a listed value: all that a double has */
    LF_GRAMMAR_BRANCHES_N = 1024,                /* that anyOf, oneOf and allOf of one place multiply to */
    LF_GRAMMAR_PATTERN_PROPERTIES_N = 6,         /* of one object */
    LF_GRAMMAR_DEPTH = 60,                       /* objects and arrays in an answer; a reader refuses LF_JSON_DEPTH */
    LF_GRAMMAR_CONFIGS_N = 8192,                 /* readings of an answer at once */
    LF_GRAMMAR_STACKS_N = 64 * 1024,             /* frames of them */
    LF_GRAMMAR_MASK_STEPS = 1536 * 1024, /* of a mask, a token taken or a look-ahead, in visits of a node: some 5 ms */
    LF_GRAMMAR_TOKEN_BYTES = 256,        /* a longer token is never allowed under a grammar */
    LF_GRAMMAR_PARTS_DEPTH = 32,         /* parts within parts (struct lf_grammar_part) */

    /* answers taken apart (template/answer_format.h) */
    LF_ANSWER_HELD_BYTES = 64 * 1024, /* that may be a call, until it is certain */
    LF_TOOLS_N = 1024,                /* of one request */
    LF_TOOL_NAME_BYTES = 256,
    LF_TOOL_VALUES_N = 512, /* properties and items, all nested ones, of a strict tool where calls have no JSON */
    LF_TOOL_DEPTH = 4,      /* objects and arrays within its arguments there */

    /* model directories */
    LF_SAFETENSORS_HEADER_BYTES = 100 * 1000 * 1000,
    LF_SAFETENSORS_TENSORS_N = 200000,
    LF_SHARDS_N = 1024,
    LF_MODULE_PATTERNS_N = 100000, /* names in a list of layers that are not quantized */
    LF_MODULE_PATTERN_BYTES = 4096,
    LF_MODULE_REGEXES_N = 256, /* of these that are expressions: each may take 64 KiB and, at each layer, its steps */
    LF_QUANT_GROUPS_N = 64,    /* ways in which matrices of one checkpoint are quantized */
    LF_CONTEXT_TOKENS = 16 * 1024 * 1024,
    LF_LAYERS_N = 1024,
    LF_HEADS_N = 1024,
    LF_HEAD_DIM = 512,
    LF_HEAD_DIM_STEP = 8, /* head_dim is a multiple of it */
    LF_VOCAB_N = 4 * 1024 * 1024,
    LF_HIDDEN_N = 1024 * 1024,
    LF_EXPERTS_N = 1024,         /* of a layer */
    LF_EXPERTS_PER_TOKEN_N = 64, /* of them, that compute a token */

    /* paged KV */
    LF_KV_BLOCK_TOKENS = 64,
    LF_STATE_LAYER_BYTES = 512 * 1024 * 1024,      /* a layer's state of a sequence (kv/kv_layout.h) */
    LF_SLOT_BLOCKS_N = 32 * 1024,                  /* blocks that a slot is as long as: each has a key of its own */
    LF_KV_IMPORT_BLOCK_BYTES = 1024 * 1024 * 1024, /* a block that `documents import` takes */

    /* threads */
    LF_THREADS_N = 512,
    LF_RANKS_N = 16,             /* --parallel: devices that compute one model together */
    LF_STACK_BYTES = 1024 * 1024 /* of each, at least: a template may need it */
};

#endif
