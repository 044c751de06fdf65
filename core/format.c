#include "core/format.h"

#include <stdio.h>

double lf_format_elem_bytes(const struct lf_format *f, int n_in)
{
    if (lf_format_is_plain(f)) return (double)lf_dtype_bytes(f->dtype);
    bool is_byte = f->code == LF_CODE_E4M3 || f->code == LF_CODE_I8;
    double of_group = (f->code == LF_CODE_E2M1 ? 1.0 : 2.0) / f->group_rows + (f->zeros ? 0.5 : 0);
    return (is_byte ? 1.0 : 0.5) + of_group * lf_format_n_groups(f, n_in) / n_in;
}

const char *lf_code_name(enum lf_code code)
{
    static const char *const names[] = {[LF_CODE_NONE] = "plain",
                                        [LF_CODE_E4M3] = "fp8",
                                        [LF_CODE_I8] = "int8",
                                        [LF_CODE_I4] = "int4",
                                        [LF_CODE_E2M1] = "fp4"};
    return names[code];
}

void lf_format_name(char name[LF_FORMAT_NAME_BYTES], const struct lf_format *f)
{
    const char *code = lf_format_is_plain(f) ? lf_dtype_name(f->dtype) : lf_code_name(f->code);
    const char *zeros = f->zeros ? " with zero points" : "";
    if (f->group == 0)
        snprintf(name, LF_FORMAT_NAME_BYTES, "%s%s", code, zeros);
    else if (f->code == LF_CODE_E2M1 && f->group == 32)
        snprintf(name, LF_FORMAT_NAME_BYTES, "mxfp4");
    else if (f->group_rows > 1)
        snprintf(name, LF_FORMAT_NAME_BYTES, "%s in blocks of %dx%d%s", code, f->group_rows, f->group, zeros);
    else
        snprintf(name, LF_FORMAT_NAME_BYTES, "%s in groups of %d%s", code, f->group, zeros);
}
