/* Intrusive doubly linked lists with a sentinel: O(1) anywhere, no allocation. Not thread safe. */
#ifndef LF_CORE_LIST_H
#define LF_CORE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct lf_list {
    struct lf_list *prev, *next; /* an empty list, and a node on no list, point to themselves */
};

#define LF_LIST_ENTRY(node, type, member) ((type *)(void *)((char *)(node)-offsetof(type, member)))
#define LF_LIST_EACH(it, head)            for (struct lf_list *it = (head)->next; it != (head); it = it->next)
/* The body may remove or free `it`. */
#define LF_LIST_EACH_SAFE(it, head)                                                                                    \
    for (struct lf_list *it = (head)->next, *it##_next = it->next; it != (head); it = it##_next, it##_next = it->next)

static inline void lf_list_init(struct lf_list *n)
{
    n->prev = n->next = n;
}
static inline bool lf_list_empty(const struct lf_list *head)
{
    return head->next == head;
}
static inline void lf_list_remove(struct lf_list *n)
{
    n->prev->next = n->next;
    n->next->prev = n->prev;
    lf_list_init(n);
}
static inline void lf_list_insert_before(struct lf_list *at, struct lf_list *n)
{
    n->prev = at->prev;
    n->next = at;
    at->prev->next = n;
    at->prev = n;
}
static inline void lf_list_push_back(struct lf_list *head, struct lf_list *n)
{
    lf_list_insert_before(head, n);
}
static inline void lf_list_push_front(struct lf_list *head, struct lf_list *n)
{
    lf_list_insert_before(head->next, n);
}
static inline struct lf_list *lf_list_first(struct lf_list *head)
{
    return lf_list_empty(head) ? NULL : head->next;
}

#endif
