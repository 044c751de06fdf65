#include "server/docs/command_table.h"

#include <string.h>

#include "core/check.h"
#include "server/config.h"

const struct lf_command_row lf_command_rows[] = {
    {.command = LF_COMMAND_SERVE,
     .name = "serve",
     .args = "[--model DIR] [options]",
     .summary = "serves a model over HTTP",
     .text = "Serves a model with the OpenAI API: /v1/chat/completions, /v1/completions and what docs/api.md lists "
             "(longflash docs api). The memory plan is made, and refused where it does not fit, before a weight is "
             "read.\n\n"
             "SIGTERM: no new requests, those in flight go on for up to --drain-timeout, exit status 0; a second one: "
             "ends at once, 1. SIGHUP: reads the keys again, reopens the log.",
     .examples = "longflash serve --model /models/llama --ctx 128K --memory 40G\n"
                 "curl localhost:8080/v1/chat/completions -H 'Content-Type: application/json' \\\n"
                 "  -d '{\"messages\": [{\"role\": \"user\", \"content\": \"Hello!\"}]}'\n"},
    {.command = LF_COMMAND_PLAN,
     .name = "plan",
     .args = "[--model DIR] [options]",
     .summary = "says what a configuration takes in memory, and whether it fits",
     .text =
         "Says what a configuration takes in memory, from config.json and the headers of the weights (a head that is "
         "tied and stored all the same is compared with the embedding): "
         "weights, workspace, KV cache, how many requests of which length fit. Exit status 0: it fits; 2: it does "
         "not.",
     .examples = "longflash plan --model /models/llama --ctx 128K --concurrency 4 --memory 64G\n"},
    {.command = LF_COMMAND_RUN,
     .name = "run",
     .args = "[--model DIR] [--document FILE] [options] QUESTION",
     .summary = "answers one question on the terminal",
     .text = "Answers one question on the terminal, without a server. The answer goes to standard output as it is "
             "made, timings to standard error.",
     .examples = "longflash run --document demo/document.txt \"What is the capital of Laigburd?\"\n"},
    {.command = LF_COMMAND_LOAD,
     .name = "load",
     .args = "[--url URL] [options]",
     .summary = "measures a server under load",
     .text =
         "Measures a server: every level of --concurrency with every length of --lengths, with time to first "
         "token, time between tokens and tokens per second. Prompts are random ids below 4000 (of a vocabulary of "
         "as many at least) and differ, so the prefix cache finds nothing. A server takes 64 connections from one "
         "address unless --connections-per-address says otherwise.\n\n"
         "With --documents the prompts are questions about documents that the server has read before. Their names "
         "begin with load-, and their texts follow from --seed (0 where it is not given): a later run puts the same "
         "ones again, also to a server that has been restarted; they end by themselves after a day. Below each row "
         "stands where the tokens came from, as the server's /metrics counted them, other clients' included.",
     .examples = "longflash load --concurrency 1,8,32 --lengths 1K,16K --csv load.csv\n"
                 "longflash load --documents 20 --lengths 8K --concurrency 16\n"
                 "longflash load --find-limit --ttft-ms 20000 --itl-ms 200\n"},
    {.command = LF_COMMAND_TOKENIZE,
     .name = "tokenize",
     .args = "[--model DIR] [options] [TEXT…]",
     .summary = "prints the token ids of a text, or the text of ids",
     .text = "Prints the token ids of the arguments, or of standard input, with their pieces.",
     .examples = "longflash tokenize --count < demo/document.txt\n"
                 "longflash tokenize --decode 321 288 4024 949\n"},
    {.command = LF_COMMAND_HEALTH,
     .name = "health",
     .args = "[--url URL]",
     .summary = "asks a server whether it is ready",
     .text = "Asks a server's /readyz. Exit status 0: ready; 1: not. For a container's health check."},
    {.command = LF_COMMAND_DOCUMENTS,
     .name = "documents",
     .args = "ls|verify|rm|export FILE|import FILE --cache-dir DIR [options] [IDENTITY…]",
     .words = "ls verify rm export import",
     .summary = "lists, checks, removes and moves what --cache-dir has kept",
     .text =
         "Shows and clears a directory of blocks on disk, without a model. It is by identity, which is of a model and "
         "of what computes it; which documents the blocks are of is not written there.\n\n"
         "ls: each identity with its model, the blocks and tokens that are kept, the bytes on disk, and when it was "
         "written last. A server may be using the directory: then the numbers are of a moment.\n\n"
         "verify: reads every block that is listed and compares its checksum. It writes nothing. Exit status 1: "
         "something is broken (a server finds that by itself when it reads the block, and computes it anew). Refused "
         "while a server uses the directory.\n\n"
         "rm: removes the files of the identities that are named, by their first 8 digits at least, or of --all. "
         "Refused while a server uses the directory.\n\n"
         "export: writes all blocks, or those of the identities that are named, to one file (\"-\": standard output); "
         "broken ones are left out. import: puts the blocks of such a file (\"-\": standard input) into the directory, "
         "each after its checksum was compared, within the room that a server gave to its identity there. An identity "
         "that no server has used the directory with is refused, unless there is --all. An import that was interrupted "
         "is repeated. Both are refused while a server uses the directory. What a file says decides what the model "
         "will "
         "have read: import none that you would not take the model itself from.",
     .examples = "longflash documents ls --cache-dir /var/cache/longflash\n"
                 "longflash documents verify --cache-dir /var/cache/longflash\n"
                 "longflash documents rm 234f9d49 --cache-dir /var/cache/longflash\n"
                 "longflash documents export kept.lf --cache-dir /var/cache/longflash\n"
                 "longflash documents export - --cache-dir A | ssh host longflash documents import - --cache-dir B\n"},
    {.command = LF_COMMAND_QUANTIZE,
     .name = "quantize",
     .args = "[--model DIR] [--to FORMAT] --out DIR",
     .summary = "writes a model again with quantized matrices",
     .text = "Writes the model in --model once more, with the matrices of its layers quantized, as a checkpoint in the "
             "format of compressed-tensors, which other engines open, too: int8 and int4 as pack-quantized in groups, "
             "fp8 as float-quantized with a scale a row. Embedding, head, routers and what sets the memory of delta "
             "nets stay as they are, and tokenizer, template and generation_config.json come along. The numbers are "
             "those of --quantize, but a start then reads as few bytes as it computes with.\n\n"
             "--out appears when all of it is written, or not at all. A run that is killed leaves DIR.XXXXXX beside "
             "it, which may be removed.",
     .examples = "longflash quantize --model /models/llama --to int4 --out /models/llama-int4\n"
                 "longflash serve --model /models/llama-int4\n"},
    {.name = "docs",
     .args = "NAME",
     .words = LF_DOCS_NAMES,
     .summary = "prints a document that the program makes of its own tables",
     .text = "Prints a document that the program makes of the tables that it itself reads: api (docs/api.md), metrics, "
             "options (docs/options.md), man (longflash.1), or the completions of a shell: bash, zsh, fish.",
     .examples = "longflash docs api\n"
                 "source <(longflash docs bash)\n"},
    {.name = "version",
     .args = "",
     .summary = "prints version, commit, backends and libraries",
     .text = "Prints the version, the commit it was built from, the backends and the CPU's instruction sets that were "
             "built in and that this machine has, and the libraries."},
    {.name = "help",
     .args = "[COMMAND]",
     .summary = "prints the page of a command",
     .text = "Prints the page of a command, as COMMAND --help does, or of the program."},
};
const int lf_command_rows_n = (int)LF_N_ELEMS(lf_command_rows);

const struct lf_command_row *lf_command_row_find(const char *name)
{
    for (int i = 0; i < lf_command_rows_n; i++)
        if (strcmp(lf_command_rows[i].name, name) == 0) return &lf_command_rows[i];
    return NULL;
}
