/* Every code that an error may carry, with its status and what it means: for docs/api.md. A refusal (lf_refuse) writes
 * its status and code where it is decided; tests/lint/check_error_codes.py holds the two together. */
#ifndef LF_SERVER_HTTP_API_ERROR_CODES_H
#define LF_SERVER_HTTP_API_ERROR_CODES_H

struct lf_error_code {
    int status;
    const char *code;
    const char *meaning; /* in Markdown */
};

extern const struct lf_error_code lf_error_codes[];
extern const int lf_error_codes_n;

#endif
