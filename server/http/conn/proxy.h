/* Whose request it is behind a proxy: the client's address, from X-Forwarded-For.
 *
 * Each proxy appends the address that it was asked from. So the header is true from its right end to the left as far as
 * trusted proxies wrote it, and the rightmost address that is no trusted proxy's is the client. What stands to the left
 * of that is what the client sent: it is not even read, or a client could choose by its garbage whose address counts.
 *
 *     X-Forwarded-For: 198.51.100.9, 203.0.113.7, 10.0.0.2      asked from 10.0.0.1, --trusted-proxy 10.0.0.0/8
 *                      └ anybody's   └ the client └ a proxy
 *
 * An IPv4 address is the same address whether it comes as one, over IPv6, or in IPv6's notation. */
#ifndef LF_SERVER_HTTP_CONN_PROXY_H
#define LF_SERVER_HTTP_CONN_PROXY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "core/limits.h"
#include "core/status.h"
#include "core/str.h"

enum { LF_ADDRESS_BYTES = 16, LF_ADDRESS_TEXT_BYTES = 46 };

struct lf_address {
    uint8_t bytes[LF_ADDRESS_BYTES]; /* IPv6; IPv4 as ::ffff:a.b.c.d; all zero: of neither */
};

struct lf_address_range {
    struct lf_address first;
    int n_bits; /* of the 128 */
};

struct lf_proxies {
    struct lf_address_range ranges[LF_TRUSTED_PROXIES_N];
    int n;
};

struct lf_address lf_address_of(const struct sockaddr_storage *addr);
/* What counts as one address: IPv4 whole, IPv6 by its /64. */
uint64_t lf_address_key(const struct lf_address *address);
/* As text, IPv4 in its own notation. */
void lf_address_print(char out[LF_ADDRESS_TEXT_BYTES], const struct lf_address *address);

/* list: NULL-terminated, of addresses and of networks such as 10.0.0.0/8 and 2001:db8::/32; NULL: none. */
LF_MUST_CHECK enum lf_status lf_proxies_init(struct lf_proxies *out, const char *const *list, struct lf_err *err);
bool lf_proxies_have(const struct lf_proxies *proxies, const struct lf_address *address);

enum lf_forwarded {
    LF_FORWARDED_NONE,     /* no header, or no other address than those of proxies */
    LF_FORWARDED_CLIENT,   /* *client is set */
    LF_FORWARDED_MALFORMED /* something that is no address, where one was looked for */
};
/* lines: the values of the header's fields, as they came. */
enum lf_forwarded lf_proxies_client(const struct lf_proxies *proxies, const struct lf_str *lines, int n_lines,
                                    struct lf_address *client);

#endif
