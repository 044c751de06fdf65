/* The files of the page, as they lie in server/http/page/: compiled in by embed.cmake there, so that a browser needs
 * nothing from anywhere else. The first is what `/` answers. */
#ifndef LF_SERVER_HTTP_API_PAGE_FILES_H
#define LF_SERVER_HTTP_API_PAGE_FILES_H

#include <stddef.h>

struct lf_page_file {
    const char *name, *type;
    const char *etag; /* of its bytes, in quotes */
    const unsigned char *bytes;
    size_t n;
};
extern const struct lf_page_file lf_page_files[];
extern const int lf_page_files_n;

#endif
