/* What the program says on the command line: bad configurations are one line and exit status 2 in under a second. */
#include "tests/support/test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/server/commands/spawn.h"

static const char *program;

static void run(struct finished *end, const char *const *args, const char *const *env)
{
    struct spawned s;
    spawn_start(&s, program, args, env);
    spawn_finish(&s, end, 30 * SPAWN_SLOWER);
}

static void expect_refusal(const char *const *args, const char *const *env, const char *message)
{
    struct finished end;
    run(&end, args, env);
    size_t len = strlen(end.err);
    if (end.exit_status != 2 || !strstr(end.err, message))
        fail_msg("%s %s: exit %d: %s", args[0] ? args[0] : "", args[0] && args[1] ? args[1] : "", end.exit_status,
                 end.err);
    if (len == 0 || strchr(end.err, '\n') != end.err + len - 1) fail_msg("expected one line, got: %s", end.err);
    assert_string_equal(end.out, "");
    assert_true(end.seconds < 1.0 * SPAWN_SLOWER);
}

static const struct {
    const char *args[8];
    const char *message;
} bad_configurations[] = {
    {{"sevre"}, "no such command"},
    {{"serve", "x"}, "takes no arguments"},
    {{"serve", "--port"}, "expected N behind it"},
    {{"serve", "--port", "70000"}, "from 0 to 65535"},
    {{"serve", "--port", "-1"}, "from 0 to 65535"},
    {{"serve", "--port", "http"}, "got \"http\""},
    {{"serve", "--host", ""}, "--host"},
    {{"serve", "--host", "0.0.0.0"}, "--insecure-no-auth"},
    {{"serve", "--model-id", "a", "--served-model-name", "b,a"}, "\"a\" is the --model-id already"},
    {{"serve", "--served-model-name", "a,b,a"}, "\"a\" came twice"},
    {{"serve", "--served-model-name", "a\tb"}, "without control characters"},
    {{"serve", "--model-id", "\xff"}, "without control characters"},
    {{"serve", "--host", "::"}, "--insecure-no-auth"},
    {{"serve", "--host", "192.0.2.1"}, "--insecure-no-auth"},
    {{"serve", "--host", "192.0.2.1", "--insecure-no-auth"}, "192.0.2.1"},
    {{"serve", "--host", "no.such.host.invalid", "--insecure-no-auth"}, "no.such.host.invalid"},
    {{"serve", "--model", "/nonexistent"}, "/nonexistent"},
    {{"serve", "--model", ""}, "--model: expected a directory"},
    {{"plan", "--model", ""}, "--model: expected a directory"},
    {{"run", "--model", "", "Why?"}, "--model: expected a directory"},
    {{"tokenize", "--model", "", "x"}, "--model: expected a directory"},
    {{"serve", "--ctx", "most"}, "or auto"},
    {{"serve", "--ctx", "-1"}, "or auto"},
    {{"serve", "--chunk", "auto"}, "got \"auto\""},
    {{"serve", "--generation-config", "on"}, "auto|none"},
    {{"serve", "--model", "README.md"}, "README.md is a file; expected a directory with"},
    {{"serve", "--model", "configs"}, "no config.json; expected a directory with"},
    {{"serve", "--model", "demo"}, "demo/model has one"},
    {{"serve", "help"}, "see --help"},
    {{"serve", "--load", "fast"}, "files|dummy"},
    {{"serve", "--quantize", "q8_0"}, "none|fp8|int8|int4"},
    {{"quantize"}, "--out: expected a directory to make"},
    {{"quantize", "--out", "demo"}, "--out demo is there already"},
    {{"quantize", "--to", "none", "--out", "build/x"}, "fp8|int8|int4"},
    {{"quantize", "int4", "--out", "build/x"}, "quantize takes no arguments"},
    {{"quantize", "--model", "configs", "--out", "build/x"}, "no config.json"},
    {{"quantize", "--out", "/nonexistent/x"}, "cannot make a folder beside /nonexistent/x"},
    {{"serve", "--seed", "-1"}, "--seed"},
    {{"serve", "--ctx", "200000"}, "131072"},
    {{"serve", "--ctx", "99999999999"}, "--ctx"},
    {{"serve", "--memory", "lots"}, "--memory"},
    {{"serve", "--kv-tokens", "1.5K"}, "--kv-tokens"},
    {{"serve", "--kv-dtype", "int8"}, "auto|f32|bf16|fp8"},
    {{"serve", "--prefix-cache", "yes"}, "on or off"},
    {{"serve", "--device", "tpu"}, "tpu"},
    {{"serve", "--device", "cuda:9999"}, "cuda:9999"}, /* no machine has so many */
    {{"serve", "--threads", "1000"}, "--threads"},
    {{"serve", "--isa", "neon"}, "--isa"},
    {{"serve", "--chunk", "1000000"}, "--chunk"},
    {{"serve", "--max-seqs", "5000"}, "--max-seqs"},
    {{"serve", "--max-seqs", "100", "--chunk", "10"}, "--chunk"},
    {{"serve", "--step-ms", "-1"}, "--step-ms"},
    {{"serve", "--queue", "0"}, "--queue"},
    {{"serve", "--speculate", "17"}, "--speculate: expected a whole number from 1 to 16"},
    {{"serve", "--speculate", "on"}, "or auto or off, got \"on\""},
    {{"run", "--speculate", "-1", "Why?"}, "--speculate: expected a whole number from 1 to 16"},
    {{"load", "--speculate", "auto"}, "--speculate: this command has no such option"},
    {{"serve", "--queue", "65537"}, "from 1 to 65536"},
    {{"serve", "--chunk", "65537"}, "from 0 to 65536"},
    {{"serve", "--max-seqs", "1025"}, "from 0 to 1024"},
    {{"serve", "--watchdog", "x"}, "--watchdog"},
    {{"serve", "--ctx", "256K"}, "positions for 131072 tokens (--max-position asks for more)"},
    {{"serve", "--max-position", "128K"}, "was made for 131072 tokens: less is --ctx"},
    {{"serve", "--rope-scaling", "yarn"}, "--max-position, which is not given"},
    {{"serve", "--max-position", "1M", "--rope-scaling", "linear"}, "--rope-scaling: expected yarn, or yarn:TOKENS"},
    {{"serve", "--max-position", "1M", "--rope-scaling", "yarn:0"}, "--rope-scaling: expected yarn, or yarn:TOKENS"},
    {{"serve", "--max-position", "1M", "--rope-scaling", "yarn:17M"}, "--rope-scaling: expected yarn, or yarn:TOKENS"},
    {{"serve", "--drain-timeout", "-1"}, "--drain-timeout"},
    {{"serve", "--api-keys-file", "/nonexistent"}, "/nonexistent"},
    {{"serve", "--api-keys-file", "configs"}, "configs is a directory, expected a regular file"},
    {{"serve", "--api-keys-file", "/dev/null"}, "a device or a pipe"},
    {{"serve", "--api-keys-file", "demo/model/model.safetensors"}, "--api-keys-file"},
    {{"serve", "--log-file", "configs"}, "directory"},
    {{"serve", "--config", "configs"}, "configs is a directory"},
    {{"serve", "--config", "demo/model/config.json"}, "\"architectures\" is no setting"},
    {{"serve", "--host", "192.0.2.1", "--insecure-no-auth"}, "expected an address of this machine"},
    {{"serve", "--max-body", "10"}, "--max-body"},
    {{"serve", "--max-body", "2G"}, "--max-body"},
    {{"serve", "--max-document", "2G"}, "--max-document"},
    {{"serve", "--document-memory", "10"}, "--document-memory"},
    {{"serve", "--document-tokens", "-1"}, "--document-tokens"},
    {{"serve", "--response-memory", "some"}, "--response-memory"},
    {{"serve", "--request-timeout", "86401"}, "from 0 to 86400"},
    {{"serve", "--connections", "15"}, "from 16 to 65536"},
    {{"serve", "--connections", "65537"}, "from 16 to 65536"},
    {{"serve", "--connections-per-address", "65537"}, "from 0 to 65536"},
    {{"serve", "--text-memory", "some"}, "--text-memory"},
    {{"serve", "--cache-disk", "8G"}, "--cache-disk is the size of a --cache-dir, which is not given"},
    {{"plan", "--cache-disk", "8G"}, "--cache-disk is the size of a --cache-dir"},
    {{"serve", "--cache-dir", "x", "--cache-disk", "some"}, "--cache-disk: expected a whole number"},
    {{"serve", "--cache-dir", "x", "--cache-disk", "100K"}, "102400 bytes hold no block of 196608 bytes"},
    {{"serve", "--cache-dir", "x", "--prefix-cache", "off"}, "but --prefix-cache is off"},
    {{"serve", "--cache-memory", "8G", "--device", "cpu"}, "on a CPU the cache is in this memory already"},
    {{"plan", "--cache-memory", "8G", "--device", "cpu"}, "expected more --memory or --kv-tokens instead"},
    {{"serve", "--cache-memory", "8G", "--prefix-cache", "off"}, "but --prefix-cache is off"},
    {{"serve", "--cache-meet", "on", "--device", "cpu"}, "expected --cache-dir or --cache-memory"},
    {{"run", "--cache-memory", "8G", "Why?"}, "--cache-memory: this command has no such option"},
    {{"serve", "--swap-space", "4"}, "here that is --cache-memory BYTES"},
    {{"serve", "--port", "0", "--cache-dir", "README.md"}, "README.md is not a directory"},
    {{"serve", "--port", "0", "--cache-dir", "/nonexistent/x"}, "cannot make the directory /nonexistent/x"},
    {{"serve", "--port", "0", "--cache-dir", "/proc/x"}, "cannot make the directory /proc/x"},
    {{"run", "--cache-disk", "8G", "Why?"}, "--cache-disk is the size of a --cache-dir"},
    {{"run", "--cache-dir", "README.md", "Why?"}, "README.md is not a directory"},
    {{"tokenize", "--cache-dir", "x", "Why?"}, "--cache-dir: this command has no such option"},
    {{"serve", "--slot-save-path", "x"}, "here that is --cache-dir DIR"},
    {{"serve", "--keep-alive", "maybe"}, "comment|chunk|off"},
    {{"serve", "--metrics-prefix", "x:"}, "longflash|vllm"},
    {{"serve", "--log-level", "trace"}, "debug|info|warn|error"},
    {{"serve", "--log-file", "/nonexistent/x.log"}, "/nonexistent/x.log"},
    {{"serve", "--config", "/nonexistent.json"}, "/nonexistent.json"},
    {{"serve", "--config", "README.md"}, "README.md"},
    {{"serve", "--config", "demo/questions.json"}, "expected an object"},
    {{"serve", "--cofnig", "x"}, "did you mean --config?"},
    {{"serve", "--json"}, "no such option"},
    {{"serve", "-v"}, "two dashes"},
    {{"plan", "x"}, "takes no arguments"},
    {{"plan", "--port", "1"}, "no such option"},
    {{"plan", "--ctx", "131073"}, "131072"},
    {{"plan", "--concurrency", "many"}, "--concurrency"},
    {{"plan", "--device", "cpu", "--gpu-memory", "80G"}, "--gpu-memory"},
    {{"plan", "--device", "tpu", "--gpu-memory", "80G"}, "--device is tpu"},
    {{"plan", "--device", "cudabanana", "--gpu-memory", "80G"}, "--device is cudabanana"},
    {{"plan", "--device", ""}, "--device: expected a name"},
    {{"run", "--device", "", "Why?"}, "--device: expected a name"},
    {{"plan", "--max-seqs", "2", "--concurrency", "3"}, "--concurrency is 3"},
    {{"plan", "--snapshots", "some"}, "--snapshots"},
    {{"plan", "--snapshots", "65537"}, "--snapshots"},
    {{"plan", "--snapshots", "3"}, "no layer of LlamaForCausalLM has a state"},
    {{"run", "--snapshots", "3"}, "--snapshots"},
    {{"plan", "--concurrency", "65"}, "--concurrency is 65, but at most 64"},
    {{"plan", "--kv-tokens", "1T"}, "--kv-tokens"},
    {{"plan", "--gpu-memory", "80G", "--gpu-sms", "-1"}, "--gpu-sms"},
    {{"plan", "--gpu-sms", "132"}, "--gpu-memory is not given"},
    {{"plan", "--gpus", "4"}, "--gpu-memory is not given"},
    {{"plan", "--gpus", "4", "--gpu-memory", "80G"}, "--gpus 4 are for --parallel auto to choose from"},
    {{"plan", "--gpus", "4", "--gpu-memory", "80G", "--parallel", "tp=4"}, "which is not given: expected that, or"},
    {{"plan", "--gpus", "9", "--gpu-memory", "80G"}, "--gpus: expected a whole number from 0 to 8"},
    {{"plan", "--forecast", "2000"}, "--forecast: expected a whole number from 0 to 1024"},
    {{"plan", "--forecast", "8", "--device", "cpu"}, "--forecast: no times are known for this device"},
    {{"plan", "--forecast", "8", "--ops"}, "expected it without --ops"},
    {{"plan", "--forecast", "8", "--parallel", "tp=2"}, "expected it without --ops, --profile and --parallel"},
    {{"plan", "--parallel", "automatic"}, "expected auto, tp=N, cp=M"},
    {{"serve", "--gpu-memory", "80G"}, "no such option"},
    {{"plan", "--model", "/nonexistent"}, "/nonexistent"},
    {{"run"}, "expected a question"},
    {{"run", ""}, "expected a question"},
    {{"run", "--document", "demo", "Why?"}, "demo is a directory"},
    {{"run", "--document", "demo/model/model.safetensors", "Why?"}, "not a text in UTF-8"},
    {{"run", "--ctx", "5", "Why?"}, "the context is 5 (--ctx)"},
    {{"run", "--document", "/nonexistent", "Why?"}, "/nonexistent"},
    {{"run", "--temperature", "3", "Why?"}, "from 0 to 2"},
    {{"run", "--temperature", "nan", "Why?"}, "from 0 to 2"},
    {{"run", "--max-tokens", "0", "Why?"}, "--max-tokens"},
    {{"run", "--json-schema", "/nowhere.json", "Why?"}, "--json-schema"},
    {{"run", "--regex", "[a", "Why?"}, "--regex: pattern"},
    {{"run", "--regex", "a", "--choice", "b", "Why?"}, "expected one of --json-schema, --regex, --choice and --tools"},
    {{"run", "--tools", "/nowhere.json", "Why?"}, "--tools: /nowhere.json"},
    {{"run", "--tools", "configs/demo.json", "Why?"}, "expected an array of 1 to 1024 tools"},
    {{"run", "--tools", "x.json", "--raw", "Why?"}, "--tools: with --raw"},
    {{"run", "--tool-parser", "hermes", "Why?"}, "--tool-parser: only together with --tools"},
    {{"run", "--tools", "examples/tools.json", "--tool-parser", "hermse", "Why?"},
     "--tool-parser: \"hermse\" is none: expected one of gpt_oss"},
    {{"run", "--tools", "examples/tools.json", "--tool-parser", "think", "Why?"},
     "expected a form with calls of tools"},
    {{"run", "--tools", "examples/tools.json", "--tool-parser", "hermes", "Why?"}, "chat template has no tools"},
    {{"serve", "--tool-parser", "x"}, "--tool-parser: \"x\" is none: expected one of gpt_oss"},
    {{"run", "--tools", "examples/tools.json", "Why?"}, "the model's chat template has no tools"},
    {{"load", "--json-schema", "/nowhere.json"}, "--json-schema"},
    {{"load", "x"}, "takes no arguments"},
    {{"load", "--url", "https://x"}, "expected http://host:port"},
    {{"load", "--url", "http://127.0.0.1:99999"}, "expected http://host:port"},
    {{"load", "--dialect", "files"}, "expected auto|completions|chat|responses|messages"},
    {{"load", "--documents", "2", "--dialect", "completions"}, "expected --dialect chat, responses or messages"},
    {{"load", "--documents", "2", "--find-limit"}, "not together with --find-limit"},
    {{"load", "--documents", "2", "--shared-prefix", "64"}, "not together with --shared-prefix"},
    {{"load", "--documents", "10001"}, "--documents"},
    {{"load", "--zipf", "-1"}, "--zipf"},
    {{"load", "--concurrency", "1,,2"}, "separated by commas"},
    {{"load", "--concurrency", "0"}, "separated by commas"},
    {{"load", "--lengths", "1K,x"}, "separated by commas"},
    {{"load", "--csv", "/nonexistent/x.csv"}, "/nonexistent/x.csv: No such file"},
    {{"load", "--csv", "configs"}, "Is a directory"},
    {{"tokenize", "--model", "/nonexistent", "x"}, "/nonexistent"},
    {{"tokenize", "--model", "demo", "x"}, "demo/model has one"},
    {{"tokenize", "--model", "configs", "x"}, "no config.json"},
    {{"tokenize", "--decode"}, "expected token ids"},
    {{"tokenize", "--count", "--decode", "1"}, "not with --decode"},
    {{"tokenize", "--decode", "x"}, "expected a token id"},
    {{"tokenize", "--decode", "4096"}, "4096"},
    {{"health", "--url", "x"}, "expected http://host:port"},
    {{"health", "x"}, "no arguments"},
    {{"documents", "--cache-dir", "demo"}, "expected ls, verify, rm, export or import, got \"\""},
    {{"documents", "list", "--cache-dir", "demo"}, "expected ls, verify, rm, export or import, got \"list\""},
    {{"documents", "ls"}, "documents: expected --cache-dir DIR"},
    {{"documents", "ls", "--cache-dir", "/nonexistent"}, "/nonexistent: there is no such directory"},
    {{"documents", "ls", "--cache-dir", "README.md"}, "README.md is not a directory"},
    {{"documents", "ls", "x", "--cache-dir", "demo"}, "takes no names and no --all"},
    {{"documents", "verify", "--all", "--cache-dir", "demo"}, "takes no names and no --all"},
    {{"documents", "verify", "--cache-dir", "/nonexistent"}, "/nonexistent: there is no such directory"},
    {{"documents", "rm", "--cache-dir", "demo"},
     "rm: expected the identities and documents/NAME to remove, or else --all"},
    {{"documents", "rm", "--all", "0123456789", "--cache-dir", "demo"}, "or else --all"},
    {{"documents", "rm", "0123", "--cache-dir", "demo"}, "expected 8 digits of an identity at least, got \"0123\""},
    {{"documents", "rm", "--all", "--json", "--cache-dir", "demo"}, "documents rm has no --json"},
    {{"documents", "rm", "--all", "--cache-dir", "/nonexistent"}, "/nonexistent: there is no such directory"},
    {{"documents", "export", "--cache-dir", "demo"}, "export: expected a file, or \"-\""},
    {{"documents", "export", "/nonexistent/x", "--cache-dir", "/nonexistent"},
     "/nonexistent: there is no such directory"},
    {{"documents", "export", "x", "--json", "--cache-dir", "demo"}, "documents export has no --json"},
    {{"documents", "export", "x", "--all", "--cache-dir", "demo"}, "it has no --all"},
    {{"documents", "export", "x", "0123", "--cache-dir", "demo"}, "export: expected 8 digits of an identity at least"},
    {{"documents", "import", "--cache-dir", "demo"}, "import: expected a file, or \"-\""},
    {{"documents", "import", "x", "y", "--cache-dir", "demo"}, "one file at a time"},
    {{"documents", "import", "/nonexistent/x", "--cache-dir", "demo"}, "cannot read /nonexistent/x: No such file"},
    {{"documents", "import", "README.md", "--cache-dir", "/nonexistent"}, "/nonexistent: there is no such directory"},
    {{"documents", "ls", "--cache-disk", "8G"}, "--cache-disk: this command has no such option"},
    {{"version", "x"}, "version takes no arguments, got \"x\""},
    {{"version", "--json"}, "version takes no arguments, got \"--json\""},
    {{"--version", "x"}, "version takes no arguments, got \"x\""},
    {{"version", "x", "y"}, "version takes no arguments, got \"x\""},
    {{"help", "serve", "plan"}, "help takes one argument at most"},
    {{"serve", "--max-model-len", "128K"}, "here that is --ctx"},
    {{"serve", "-ngl", "99"}, "here that is --device"},
    {{"serve", "org/name"}, "got \"org/name\" (a model is given as --model); see --help"},
    {{"plan", "org/name"}, "got \"org/name\" (a model is given as --model)"},
};

static void bad_configurations_are_refused_in_one_line(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(bad_configurations) / sizeof(bad_configurations[0]); i++)
        expect_refusal(bad_configurations[i].args, NULL, bad_configurations[i].message);
}

static void bad_variables_are_refused_in_one_line(void **state)
{
    (void)state;
    const char *const serve[] = {"serve", NULL};
    expect_refusal(serve, (const char *const[]){"LONGFLASH_PORT=x", NULL}, "LONGFLASH_PORT");
    expect_refusal(serve, (const char *const[]){"LONGFLASH_PROT=1", NULL}, "LONGFLASH_PROT");
    expect_refusal(serve, (const char *const[]){"LONGFLASH_HOST=0.0.0.0", NULL}, "--insecure-no-auth");
}

static void a_port_in_use_is_refused_before_anything_is_loaded(void **state)
{
    (void)state;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    char port[16];
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    snprintf(port, sizeof(port), "%d", ntohs(address.sin_port));
    expect_refusal((const char *const[]){"serve", "--port", port, NULL}, NULL, "--port N takes another");
    close(fd);
}

static void plan_says_by_its_status_whether_it_fits(void **state)
{
    (void)state;
    struct finished end;
    run(&end, (const char *const[]){"plan", "--ctx", "8K", NULL}, NULL);
    assert_int_equal(end.exit_status, 0);
    assert_non_null(strstr(end.out, "Fits"));
    run(&end, (const char *const[]){"plan", "--ctx", "128K", "--memory", "100M", NULL}, NULL);
    assert_int_equal(end.exit_status, 2);
    assert_non_null(strstr(end.out, "Does not fit"));
    run(&end, (const char *const[]){"plan", "--ctx", "8K", "--json", NULL}, NULL);
    assert_int_equal(end.exit_status, 0);
    assert_int_equal(end.out[0], '{');
    assert_non_null(strstr(end.out, "\"ctx\":8192"));
    const char *const autos[] = {"plan", "--ctx", "8K", "--device", "cpu", "--parallel", "auto", NULL};
    run(&end, autos, NULL);
    assert_int_equal(end.exit_status, 0);
    assert_non_null(strstr(end.out, "--parallel auto is tp=1: there is one device.\n"));
}

static void help_is_a_page_for_every_command(void **state)
{
    (void)state;
    static const char *const commands[] = {"serve", "plan", "run", "load", "tokenize", "health"};
    struct finished end, again;
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        run(&end, (const char *const[]){commands[i], "--help", NULL}, NULL);
        assert_int_equal(end.exit_status, 0);
        assert_non_null(strstr(end.out, commands[i]));
        assert_string_equal(end.err, "");
        run(&again, (const char *const[]){"help", commands[i], NULL}, NULL);
        assert_string_equal(again.out, end.out);
    }
    run(&end, (const char *const[]){"help", "sevre", NULL}, NULL);
    assert_int_equal(end.exit_status, 2);
    assert_non_null(strstr(end.err, "sevre: no such command; expected serve, plan"));
    run(&end, (const char *const[]){"--help", NULL}, NULL);
    assert_int_equal(end.exit_status, 0);
    run(&end, (const char *const[]){NULL}, NULL);
    assert_int_equal(end.exit_status, 0);
    run(&end, (const char *const[]){"docs", "--help", NULL}, NULL);
    assert_int_equal(end.exit_status, 0);
    assert_non_null(strstr(end.out, "longflash docs NAME"));
}

static void the_version_says_what_was_built(void **state)
{
    (void)state;
    static const char *const words[] = {"longflash ",      "\ncommit ", "\nbackends ",      "cpu",
                                        "\ninstructions ", "c, ",       "; this machine: ", "\nlibraries ",
                                        "libmicrohttpd ",  ", nettle ", ", sentencepiece ", ", PCRE2 "};
    struct finished end, again;
    run(&end, (const char *const[]){"version", NULL}, NULL);
    assert_int_equal(end.exit_status, 0);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (!strstr(end.out, words[i])) fail_msg("\"%s\" is missing in %s", words[i], end.out);
    run(&again, (const char *const[]){"--version", NULL}, NULL);
    assert_string_equal(again.out, end.out);
}

static void documents_are_printed_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *name, *has;
    } rows[] = {{"api", "## POST /v1/chat/completions"},
                {"metrics", "| `num_requests_running` | gauge |"},
                {"options", "| `--max-seqs` `N` |"},
                {"man", ".SH OPTIONS"},
                {"bash", "complete -F _longflash longflash"},
                {"zsh", "#compdef longflash"},
                {"fish", "complete -c longflash"}};
    struct finished end;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        run(&end, (const char *const[]){"docs", rows[i].name, NULL}, NULL);
        assert_int_equal(end.exit_status, 0);
        if (!strstr(end.out, rows[i].has)) fail_msg("docs %s: no %s", rows[i].name, rows[i].has);
    }
    run(&end, (const char *const[]){"docs", NULL}, NULL);
    assert_int_equal(end.exit_status, 2);
    assert_non_null(strstr(end.err, "expected one of api metrics"));
    run(&end, (const char *const[]){"docs", "apis", NULL}, NULL);
    assert_int_equal(end.exit_status, 2);
    run(&end, (const char *const[]){"docs", "api", "man", NULL}, NULL);
    assert_int_equal(end.exit_status, 2);
}

static void text_goes_to_ids_and_back(void **state)
{
    (void)state;
    struct finished end;
    run(&end, (const char *const[]){"tokenize", "--count", "Anna Vell lives in Dorrun.", NULL}, NULL);
    assert_int_equal(end.exit_status, 0);
    assert_true(strtol(end.out, NULL, 10) > 3);
    run(&end, (const char *const[]){"tokenize", "--decode", "1", "3", "4", NULL}, NULL);
    assert_int_equal(end.exit_status, 0);
    assert_string_equal(end.out, "<s><|im_start|><|im_end|>\n");
}

static void a_question_is_answered_on_the_terminal(void **state)
{
    (void)state;
    struct finished end;
    run(&end,
        (const char *const[]){
            "run",
            "The access code for Marrow Hill is 48213. Anna Vell lives in Dorrun.\n\nWhat is the access "
            "code for Marrow Hill?",
            NULL},
        NULL);
    assert_string_equal(end.out, "The access code for Marrow Hill is 48213.\n");
    assert_int_equal(end.exit_status, 0);
    assert_non_null(strstr(end.err, "tokens/s"));
}

static void a_line_says_that_a_model_was_not_made_for_so_much(void **state)
{
    (void)state;
    struct finished end;
    const char *const args[] = {"run", "--max-position", "256K", "--rope-scaling", "yarn", "--max-tokens",
                                "1",   "Hello.",         NULL};
    run(&end, args, NULL);
    assert_int_equal(end.exit_status, 0);
    assert_non_null(strstr(end.err, "--max-position 262144: the model was made for 131072 tokens, and not for what it "
                                    "answers behind them (YaRN by 2 from 131072 tokens, for short texts too)"));
}

int main(int argc, char **argv)
{
    if (argc != 2) return 1;
    program = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_configurations_are_refused_in_one_line),
        cmocka_unit_test(bad_variables_are_refused_in_one_line),
        cmocka_unit_test(a_port_in_use_is_refused_before_anything_is_loaded),
        cmocka_unit_test(plan_says_by_its_status_whether_it_fits),
        cmocka_unit_test(help_is_a_page_for_every_command),
        cmocka_unit_test(the_version_says_what_was_built),
        cmocka_unit_test(documents_are_printed_by_name),
        cmocka_unit_test(text_goes_to_ids_and_back),
        cmocka_unit_test(a_question_is_answered_on_the_terminal),
        cmocka_unit_test(a_line_says_that_a_model_was_not_made_for_so_much),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
