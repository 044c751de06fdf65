/* version: what a report of a defect should begin with. */
#include "server/commands.h"
#include "server/commit.h" /* made by server/commit.cmake at build time */

#include <gnu/libc-version.h>
#include <stdio.h>

#include "core/str.h"
#include "device/device.h"

const char *lf_version(void)
{
    return LF_VERSION;
}

const char *lf_commit(void)
{
    return LF_COMMIT;
}

void lf_program_print(char out[LF_PROGRAM_BYTES])
{
    snprintf(out, LF_PROGRAM_BYTES, "longflash " LF_VERSION ", " LF_COMMIT ", " LF_COMPILER ", glibc %s",
             gnu_get_libc_version());
}

static void print(struct lf_buf *out)
{
    lf_buf_printf(out, "longflash " LF_VERSION "\ncommit        " LF_COMMIT "\nbackends      ");
    lf_device_backends(out);
    lf_buf_cstr(out, "\ninstructions  ");
    lf_device_isas(out);
    lf_buf_cstr(out, "\nlibraries     " LF_BUILT_WITH "\ncompiler      " LF_COMPILER "\n");
}

int lf_version_command(void)
{
    return lf_print(print);
}
