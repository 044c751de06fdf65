/* Fuzzing settings: a byte for the command, then parts with NULs between them. The first is the file of --config, those
 * that begin with LONGFLASH_ the environment, the others the command line. Sizes, URLs and near names of options are
 * read from the same words. */
#include "server/config.h"
#include "server/options.h"
#include "tests/fuzz/fuzz.h"

enum { WORDS_N = 80 };

static void check_size(const char *word)
{
    uint64_t n = 0;
    if (lf_config_parse_size(word, &n)) LF_ASSERT(word[0] >= '0' && word[0] <= '9' && n <= INT64_MAX);
}

/* Every number is in its row's range, or stands for one of its row's words. */
static bool is_in_range(const struct lf_option *o, int number)
{
    return (number >= o->min && number <= o->max) || (o->word && number == LF_OPTION_WORD) || (o->zero && number == 0);
}

static void check_config(const struct lf_config *c, unsigned command)
{
    for (int i = 0; i < lf_options_n(); i++) {
        const struct lf_option *o = lf_option_at(i);
        const char *field = (const char *)c + o->offset;
        int number;
        uint64_t size;
        if (!(o->commands & command)) continue;
        memcpy(&number, field, sizeof number);
        memcpy(&size, field, sizeof size);
        if (o->type == LF_OPTION_INT) LF_ASSERT(is_in_range(o, number));
        if (o->type == LF_OPTION_SIZE) LF_ASSERT(size >= (uint64_t)o->min && size <= (uint64_t)o->max);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct fuzz_file file;
    static const enum lf_command commands[] = {LF_COMMAND_SERVE,    LF_COMMAND_PLAN,     LF_COMMAND_RUN,
                                               LF_COMMAND_LOAD,     LF_COMMAND_TOKENIZE, LF_COMMAND_HEALTH,
                                               LF_COMMAND_DOCUMENTS};
    char *argv[WORDS_N], *env[WORDS_N + 2], config_env[96];
    int argc = 0, n_env = 0;
    struct lf_config config = {0};
    struct lf_err err = {0};
    if (size == 0) return 0;
    enum lf_command command = commands[*data % LF_N_ELEMS(commands)];
    data++;
    size--;
    fuzz_file_fill(&file, fuzz_part(&data, &size), 0);
    snprintf(config_env, sizeof config_env, "LONGFLASH_CONFIG=%s", file.path);
    env[n_env++] = config_env;
    while (size > 0 && argc < WORDS_N && n_env < WORDS_N) {
        char *word = fuzz_c_string(fuzz_part(&data, &size));
        check_size(word);
        (void)lf_option_nearest(word, command);
        if (strncmp(word, "LONGFLASH_", 10) == 0)
            env[n_env++] = word;
        else if (strncmp(word, "--config", 8) != 0) /* no file but ours is read */
            argv[argc++] = word;
        else
            free(word);
    }
    env[n_env] = NULL;
    if (lf_config_read(&config, command, argc, argv, env, &err) == LF_OK)
        check_config(&config, command);
    else
        LF_ASSERT(err.message[0] != 0);
    lf_config_deinit(&config);
    for (int i = 0; i < argc; i++) free(argv[i]);
    for (int i = 1; i < n_env; i++) free(env[i]);
    return 0;
}
