/* Identities: what must be equal on all ranks, as text, and how two that are not are told apart. Pure functions. */
#ifndef LF_SERVER_RENDEZVOUS_IDENTITY_H
#define LF_SERVER_RENDEZVOUS_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>

/* Whether it can be one: LF_IDENTITY_BYTES at most, UTF-8 without control characters. */
bool lf_identity_is_valid(const char *identity);
/* A sentence with both from the first word that differs to the last one: `it has "tp=2", this rank "tp=4"`. */
void lf_identity_compare(char *out, size_t n_out, const char *who, const char *identity, const char *other_who,
                         const char *other);

#endif
