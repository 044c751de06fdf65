/* The log: one line a message on standard error or a file, `time level message key=value …`.
 *
 * Any thread may log. A line that cannot be written (full disk, closed pipe) is counted and dropped: serving goes on.
 * Prompts, answers, keys and token ids are never logged: callers pass numbers, ids and states only. */
#ifndef LF_CORE_LOG_H
#define LF_CORE_LOG_H

#include <stdint.h>

#include "core/status.h"

enum lf_log_level { LF_LOG_DEBUG, LF_LOG_INFO, LF_LOG_WARN, LF_LOG_ERROR };

/* Sets the lowest level written. Default: LF_LOG_INFO. */
void lf_log_set_level(enum lf_log_level level);
/* Logs to the file at path (appending) from now on; NULL means standard error. Also how SIGHUP reopens it. */
LF_MUST_CHECK enum lf_status lf_log_open(const char *path, struct lf_err *err);
/* Lines that could not be written since the start. */
uint64_t lf_log_n_dropped(void);

void lf_log(enum lf_log_level level, const char *fmt, ...) LF_PRINTF(2, 3);
#define LF_DEBUG_LOG(...) lf_log(LF_LOG_DEBUG, __VA_ARGS__)
#define LF_INFO(...)      lf_log(LF_LOG_INFO, __VA_ARGS__)
#define LF_WARN(...)      lf_log(LF_LOG_WARN, __VA_ARGS__)
#define LF_ERROR(...)     lf_log(LF_LOG_ERROR, __VA_ARGS__)

#endif
