#include "server/http/conn/proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>

#include "core/check.h"

enum { V4_BITS = 32, V6_BITS = 128, MAPPED_BITS = V6_BITS - V4_BITS, PORT_DIGITS = 5 };

static const uint8_t mapped[MAPPED_BITS / 8] = {[10] = 0xff, [11] = 0xff};

static bool is_v4(const struct lf_address *a)
{
    return memcmp(a->bytes, mapped, sizeof mapped) == 0;
}

static struct lf_address of_v4(const struct in_addr *v4)
{
    struct lf_address a;
    memcpy(a.bytes, mapped, sizeof mapped);
    memcpy(a.bytes + sizeof mapped, v4, sizeof *v4);
    return a;
}

static struct lf_address of_v6(const struct in6_addr *v6)
{
    struct lf_address a;
    memcpy(a.bytes, v6, sizeof a.bytes);
    return a;
}

struct lf_address lf_address_of(const struct sockaddr_storage *addr)
{
    if (addr->ss_family == AF_INET) return of_v4(&((const struct sockaddr_in *)(const void *)addr)->sin_addr);
    if (addr->ss_family == AF_INET6) return of_v6(&((const struct sockaddr_in6 *)(const void *)addr)->sin6_addr);
    return (struct lf_address){0};
}

uint64_t lf_address_key(const struct lf_address *address)
{
    uint32_t v4;
    uint64_t prefix;
    memcpy(&v4, address->bytes + sizeof mapped, sizeof v4);
    memcpy(&prefix, address->bytes, sizeof prefix);
    return is_v4(address) ? ntohl(v4) | (uint64_t)1 << 32 : prefix;
}

void lf_address_print(char out[LF_ADDRESS_TEXT_BYTES], const struct lf_address *address)
{
    _Static_assert((int)LF_ADDRESS_TEXT_BYTES == (int)INET6_ADDRSTRLEN, "the longest one fits");
    bool v4 = is_v4(address);
    const uint8_t *bytes = address->bytes + (v4 ? sizeof mapped : 0);
    if (!inet_ntop(v4 ? AF_INET : AF_INET6, bytes, out, LF_ADDRESS_TEXT_BYTES)) out[0] = '\0';
}

/* An address without brackets, port or zone. */
static bool parse_plain(struct lf_address *out, struct lf_str s)
{
    char text[LF_ADDRESS_TEXT_BYTES];
    struct in_addr v4;
    struct in6_addr v6;
    if (s.len == 0 || s.len >= sizeof text || memchr(s.ptr, '\0', s.len)) return false;
    memcpy(text, s.ptr, s.len);
    text[s.len] = '\0';
    if (inet_pton(AF_INET, text, &v4) == 1)
        *out = of_v4(&v4);
    else if (inet_pton(AF_INET6, text, &v6) == 1)
        *out = of_v6(&v6);
    else
        return false;
    return true;
}

/* ---- the option ---- */

static bool range_has(const struct lf_address_range *range, const struct lf_address *a)
{
    int n_bytes = range->n_bits / 8, n_rest = range->n_bits % 8;
    if (memcmp(a->bytes, range->first.bytes, (size_t)n_bytes) != 0) return false;
    return n_rest == 0 || (a->bytes[n_bytes] ^ range->first.bytes[n_bytes]) >> (8 - n_rest) == 0;
}

/* Behind the slash: 1 to most; 0 where it is no such number. */
static int parse_bits(const char *s, int most)
{
    char *end;
    if (*s < '0' || *s > '9' || strlen(s) > 3) return 0;
    long n = strtol(s, &end, 10);
    return *end == '\0' && n <= most ? (int)n : 0;
}

static bool has_bits_beyond(const struct lf_address_range *range)
{
    for (int i = range->n_bits; i < V6_BITS; i++)
        if (range->first.bytes[i / 8] >> (7 - i % 8) & 1) return true;
    return false;
}

static enum lf_status parse_range(struct lf_address_range *out, const char *text, struct lf_err *err)
{
    size_t n = strcspn(text, "/");
    struct lf_str address = lf_str_trim(lf_str_from(text, n));
    if (!parse_plain(&out->first, address))
        return lf_fail(err, LF_INVALID,
                       "--trusted-proxy: \"%.60s\" is no address, and no network such as 10.0.0.0/8 or 2001:db8::/32",
                       text);
    bool v4 = !memchr(address.ptr, ':', address.len);
    int most = v4 ? V4_BITS : V6_BITS;
    int n_bits = text[n] ? parse_bits(text + n + 1, most) : most;
    if (n_bits == 0)
        return lf_fail(err, LF_INVALID, "--trusted-proxy: \"%.60s\": expected 1 to %d bits behind the slash", text,
                       most);
    out->n_bits = n_bits + (v4 ? MAPPED_BITS : 0);
    if (has_bits_beyond(out))
        return lf_fail(err, LF_INVALID, "--trusted-proxy: \"%.60s\" has bits behind its first %d: expected a network",
                       text, n_bits);
    return LF_OK;
}

enum lf_status lf_proxies_init(struct lf_proxies *out, const char *const *list, struct lf_err *err)
{
    *out = (struct lf_proxies){0};
    for (const char *const *p = list; p && *p; p++) {
        if (out->n == LF_TRUSTED_PROXIES_N)
            return lf_fail(err, LF_LIMIT, "--trusted-proxy: more than %d values", LF_TRUSTED_PROXIES_N);
        LF_TRY(parse_range(&out->ranges[out->n], *p, err));
        out->n++;
    }
    return LF_OK;
}

/* A network of IPv6 holds no address of IPv4, however short it is. */
bool lf_proxies_have(const struct lf_proxies *proxies, const struct lf_address *address)
{
    for (int i = 0; i < proxies->n; i++) {
        const struct lf_address_range *range = &proxies->ranges[i];
        if (is_v4(address) && range->n_bits < MAPPED_BITS) continue;
        if (range_has(range, address)) return true;
    }
    return false;
}

/* ---- the header ---- */

static bool is_port(struct lf_str s)
{
    for (size_t i = 0; i < s.len; i++)
        if (s.ptr[i] < '0' || s.ptr[i] > '9') return false;
    return s.len > 0 && s.len <= PORT_DIGITS;
}

/* What is before the last colon, where a port is behind it; else all of it. */
static struct lf_str without_port(struct lf_str s)
{
    for (size_t at = s.len; at-- > 0;)
        if (s.ptr[at] == ':') return is_port(lf_str_from(s.ptr + at + 1, s.len - at - 1)) ? lf_str_from(s.ptr, at) : s;
    return s;
}

/* As proxies write it: 203.0.113.7, 203.0.113.7:4711, 2001:db8::7, [2001:db8::7], [2001:db8::7]:4711. */
static bool parse_forwarded(struct lf_address *out, struct lf_str s)
{
    if (parse_plain(out, s)) return true;
    struct lf_str host = without_port(s);
    bool brackets = host.len > 2 && host.ptr[0] == '[' && host.ptr[host.len - 1] == ']';
    if (brackets) host = lf_str_from(host.ptr + 1, host.len - 2);
    bool v6 = host.len > 0 && memchr(host.ptr, ':', host.len);
    return brackets == v6 && parse_plain(out, host);
}

enum lf_forwarded lf_proxies_client(const struct lf_proxies *proxies, const struct lf_str *lines, int n_lines,
                                    struct lf_address *client)
{
    for (int i = n_lines; i-- > 0;) {
        for (size_t end = lines[i].len, more = 1; more;) {
            size_t at = end;
            struct lf_address a;
            while (at > 0 && lines[i].ptr[at - 1] != ',') at--;
            if (!parse_forwarded(&a, lf_str_trim(lf_str_from(lines[i].ptr + at, end - at))))
                return LF_FORWARDED_MALFORMED;
            if (!lf_proxies_have(proxies, &a)) {
                *client = a;
                return LF_FORWARDED_CLIENT;
            }
            more = at > 0;
            end = at - more;
        }
    }
    return LF_FORWARDED_NONE;
}
