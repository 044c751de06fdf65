/* The scheduler: what runs in the next step. A pure policy over (state, limits, clock value): it holds no bytes, calls
 * no clock and no device, so tests/sim drives it through millions of steps. */
#ifndef LF_SERVER_ENGINE_SCHEDULER_H
#define LF_SERVER_ENGINE_SCHEDULER_H

#endif
