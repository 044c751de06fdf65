/* An example of each endpoint, for docs/api.md: what is sent and what comes back. tests/e2e/test_api_examples.py sends
 * them to the program with the demo model and compares; what differs from time to time (ids, times, rates) is any. */
#ifndef LF_SERVER_HTTP_API_EXAMPLES_H
#define LF_SERVER_HTTP_API_EXAMPLES_H

struct lf_api_example {
    const char *request; /* "POST /tokenize" */
    const char *body;    /* JSON; NULL: none */
    int status;
    const char *answer; /* JSON, or the events of a stream */
};

extern const struct lf_api_example lf_api_examples[];
extern const int lf_api_examples_n;

#endif
