/* How far down what is pinned may go: it stays in that tier, and in those below it, for these keep it when the ones
 * above are gone. So a higher number says more. */
#ifndef LF_CORE_PIN_H
#define LF_CORE_PIN_H

enum lf_pin { LF_PIN_NONE, LF_PIN_DISK, LF_PIN_MEMORY, LF_PIN_DEVICE, LF_PIN_N };

static inline const char *lf_pin_name(enum lf_pin pin)
{
    static const char *const names[LF_PIN_N] = {"none", "disk", "memory", "device"};
    return names[pin];
}

#endif
