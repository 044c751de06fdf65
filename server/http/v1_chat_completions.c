#include "server/http/handler.h"
#include "server/http/routes.h"

void lf_handle_chat_completions(struct lf_call *call)
{
    lf_handler_generate(call, LF_ASK_CHAT);
}
