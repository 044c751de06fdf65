/* plan --forecast: what so many GPUs would make of one request, by the model of costs (model/split_cost.h). */
#ifndef LF_SERVER_FORECAST_H
#define LF_SERVER_FORECAST_H

#include "core/str.h"
#include "server/runtime.h"

/* Appends a table, or an object, with a row for each of 1, 2, 4 … config->forecast GPUs: the split and the length of
 * steps that answer a request of --ctx tokens soonest, of those that fit (model/split_choice.h has what a request is).
 * LF_UNSUPPORTED where no times are known; what a plan of one GPU returns. */
LF_MUST_CHECK enum lf_status lf_forecast_print(struct lf_runtime *rt, struct lf_buf *out, struct lf_err *err);

#endif
