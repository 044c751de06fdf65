/* Completion for shells: commands, their options, and values where there is a list of them or they are files. */
#include <string.h>

#include "server/docs/command_table.h"
#include "server/docs/docs.h"
#include "server/options.h"

static bool takes_dir(const struct lf_option *o)
{
    return o->arg && strncmp(o->arg, "DIR", 3) == 0;
}

static bool takes_file(const struct lf_option *o)
{
    return o->arg && strcmp(o->arg, "FILE") == 0;
}

static const char *choices_of(const struct lf_option *o)
{
    if (o->type == LF_OPTION_SWITCH) return "on|off";
    return o->type == LF_OPTION_CHOICE ? o->choices : NULL;
}

/* "a|b" as "a b". */
static void words(struct lf_buf *out, const char *choices)
{
    for (; *choices; choices++) lf_buf_char(out, *choices == '|' ? ' ' : *choices);
}

/* Text within single quotes; a character of `marked` gets a backslash, and a quote is written as the shell has it. */
static void quoted(struct lf_buf *out, const char *text, const char *marked, const char *quote)
{
    for (; *text; text++) {
        if (*text == '\'') {
            lf_buf_cstr(out, quote);
            continue;
        }
        if (strchr(marked, *text)) lf_buf_char(out, '\\');
        lf_buf_char(out, *text);
    }
}

static bool first_of_its_name(int idx)
{
    for (int i = 0; i < idx; i++)
        if (strcmp(lf_option_at(i)->name, lf_option_at(idx)->name) == 0) return false;
    return true;
}

static void command_names(struct lf_buf *out)
{
    for (int i = 0; i < lf_command_rows_n; i++) lf_buf_printf(out, "%s%s", i ? " " : "", lf_command_rows[i].name);
}

/* ---- bash ---- */

static void bash_values(struct lf_buf *out)
{
    for (int i = 0; i < lf_options_n(); i++) {
        const struct lf_option *o = lf_option_at(i);
        if (!first_of_its_name(i) || o->type == LF_OPTION_FLAG) continue;
        lf_buf_printf(out, "    --%s) ", o->name);
        if (choices_of(o)) {
            lf_buf_cstr(out, "words=\"");
            words(out, choices_of(o));
            lf_buf_cstr(out, "\" ;;\n");
        } else {
            lf_buf_cstr(out, takes_dir(o) ? "paths=-d ;;\n" : takes_file(o) ? "paths=-f ;;\n" : "return ;;\n");
        }
    }
}

static void bash_options(struct lf_buf *out)
{
    for (int k = 0; k < lf_command_rows_n; k++) {
        const struct lf_command_row *row = &lf_command_rows[k];
        if (!row->command && !row->words) continue;
        lf_buf_printf(out, "        %s) words=\"%s", row->name, row->words ? row->words : "");
        const char *space = row->words ? " " : "";
        for (int i = 0; i < lf_options_n(); i++) {
            if (!(lf_option_at(i)->commands & row->command)) continue;
            lf_buf_printf(out, "%s--%s", space, lf_option_at(i)->name);
            space = " ";
        }
        lf_buf_cstr(out, "\" ;;\n");
    }
}

void lf_docs_bash(struct lf_buf *out)
{
    lf_buf_cstr(out, "# made by `longflash docs bash` from server/options.c\n"
                     "_longflash() {\n"
                     "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} words='' paths=''\n"
                     "    local commands=\"");
    command_names(out);
    lf_buf_cstr(out, "\"\n"
                     "    COMPREPLY=()\n"
                     "    case $prev in\n");
    bash_values(out);
    lf_buf_cstr(out, "    esac\n"
                     "    if [ \"$COMP_CWORD\" = 1 ]; then\n"
                     "        words=$commands\n"
                     "    elif [ -z \"$words$paths\" ]; then\n"
                     "        case ${COMP_WORDS[1]} in\n");
    bash_options(out);
    lf_buf_cstr(out, "        help) words=$commands ;;\n"
                     "        esac\n"
                     "    fi\n"
                     "    if [ -n \"$paths\" ]; then\n"
                     "        compopt -o filenames\n"
                     "        mapfile -t COMPREPLY < <(compgen \"$paths\" -- \"$cur\")\n"
                     "    else\n"
                     "        mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
                     "    fi\n"
                     "}\n"
                     "complete -F _longflash longflash\n");
}

/* ---- zsh ---- */

static void zsh_option(struct lf_buf *out, const struct lf_option *o)
{
    lf_buf_printf(out, " \\\n            '%s--%s%s[", lf_option_is_list(o) ? "*" : "", o->name,
                  o->type == LF_OPTION_FLAG ? "" : "=");
    quoted(out, o->help, "[]:\\", "'\\''");
    lf_buf_char(out, ']');
    if (o->type != LF_OPTION_FLAG) {
        lf_buf_printf(out, ":%s:", o->arg);
        if (choices_of(o)) {
            lf_buf_char(out, '(');
            words(out, choices_of(o));
            lf_buf_char(out, ')');
        } else {
            lf_buf_cstr(out, takes_dir(o) ? "_files -/" : takes_file(o) ? "_files" : " ");
        }
    }
    lf_buf_char(out, '\'');
}

void lf_docs_zsh(struct lf_buf *out)
{
    lf_buf_cstr(out, "#compdef longflash\n# made by `longflash docs zsh` from server/options.c\n"
                     "_longflash() {\n    local -a commands=(\n");
    for (int i = 0; i < lf_command_rows_n; i++) {
        lf_buf_printf(out, "        '%s:", lf_command_rows[i].name);
        quoted(out, lf_command_rows[i].summary, "", "'\\''");
        lf_buf_cstr(out, "'\n");
    }
    lf_buf_cstr(out,
                "    )\n    if (( CURRENT == 2 )); then\n        _describe command commands\n        return\n    fi\n"
                "    local command=$words[2]\n    shift words\n    (( CURRENT-- ))\n    case $command in\n");
    for (int k = 0; k < lf_command_rows_n; k++) {
        const struct lf_command_row *row = &lf_command_rows[k];
        if (!row->command && row->words) lf_buf_printf(out, "    %s) compadd %s ;;\n", row->name, row->words);
        if (!row->command) continue;
        lf_buf_printf(out, "    %s)\n        _arguments", row->name);
        if (row->words) lf_buf_printf(out, " '1: :(%s)'", row->words);
        for (int i = 0; i < lf_options_n(); i++)
            if (lf_option_at(i)->commands & row->command) zsh_option(out, lf_option_at(i));
        lf_buf_cstr(out, "\n        ;;\n");
    }
    lf_buf_cstr(out, "    help) _describe command commands ;;\n    esac\n}\n_longflash \"$@\"\n");
}

/* ---- fish ---- */

static void fish_option(struct lf_buf *out, const struct lf_option *o)
{
    lf_buf_cstr(out, "complete -c longflash -n '__fish_seen_subcommand_from");
    for (int k = 0; k < lf_command_rows_n; k++)
        if (lf_command_rows[k].command & o->commands) lf_buf_printf(out, " %s", lf_command_rows[k].name);
    lf_buf_printf(out, "' -l %s -d '", o->name);
    quoted(out, o->help, "\\", "\\'");
    lf_buf_char(out, '\'');
    if (choices_of(o)) {
        lf_buf_cstr(out, " -x -a '");
        words(out, choices_of(o));
        lf_buf_char(out, '\'');
    } else if (o->type != LF_OPTION_FLAG) {
        lf_buf_cstr(out, takes_dir(o) ? " -x -a '(__fish_complete_directories)'" : takes_file(o) ? " -r -F" : " -x");
    }
    lf_buf_char(out, '\n');
}

void lf_docs_fish(struct lf_buf *out)
{
    lf_buf_cstr(out, "# made by `longflash docs fish` from server/options.c\ncomplete -c longflash -f\n");
    for (int i = 0; i < lf_command_rows_n; i++) {
        const struct lf_command_row *row = &lf_command_rows[i];
        lf_buf_printf(out, "complete -c longflash -n __fish_use_subcommand -a %s -d '", row->name);
        quoted(out, row->summary, "\\", "\\'");
        lf_buf_cstr(out, "'\n");
        if (row->words)
            lf_buf_printf(out, "complete -c longflash -n '__fish_seen_subcommand_from %s' -a '%s'\n", row->name,
                          row->words);
    }
    lf_buf_cstr(out, "complete -c longflash -n '__fish_seen_subcommand_from help' -a '");
    command_names(out);
    lf_buf_cstr(out, "'\n");
    for (int i = 0; i < lf_options_n(); i++) fish_option(out, lf_option_at(i));
}
