/* Messages that stand in JSON as a render takes them, each passed through as it is. */
#ifndef LF_TESTS_SUPPORT_CHAT_MESSAGES_H
#define LF_TESTS_SUPPORT_CHAT_MESSAGES_H

#include "core/limits.h"
#include "template/chat_template.h"

/* How many of list are used: its elements, none where it is no array. */
static inline size_t chat_messages_n(struct lf_json_value list)
{
    size_t n = lf_json_type(list) == LF_JSON_ARRAY ? lf_json_len(list) : 0;
    return n < LF_MESSAGES_N ? n : LF_MESSAGES_N;
}

/* Borrowed by one thread until its next call. */
static inline const struct lf_chat_message *chat_messages_of(struct lf_json_value list)
{
    static _Thread_local struct lf_chat_message all[LF_MESSAGES_N];
    struct lf_json_value it = lf_json_first(list);
    for (size_t i = 0; i < chat_messages_n(list); i++, it = lf_json_next(list, it))
        all[i] = (struct lf_chat_message){.more = it};
    return all;
}

/* The two members of lf_chat_render_params. */
#define CHAT_MESSAGES(list) .messages = chat_messages_of(list), .n_messages = chat_messages_n(list)

#endif
