/* How much of the machine this process may use: CPUs and memory, containers' limits included.
 *
 * The sources are files of the kernel's; `root` is put before their paths ("" in the program), so that a test can lay
 * out a machine of its own. What cannot be read does not limit. */
#ifndef LF_DEVICE_CPU_SYSINFO_H
#define LF_DEVICE_CPU_SYSINFO_H

#include <stdint.h>

struct lf_sysinfo_memory {
    uint64_t total_bytes;     /* RAM, or the tightest limit of this process's cgroups if that is less */
    uint64_t available_bytes; /* what can still be taken without swapping or being killed */
};

struct lf_sysinfo_memory lf_sysinfo_memory(const char *root);
/* CPUs this process may run on: its affinity mask, or the cgroup's quota rounded up if that is less. At least 1. */
int lf_sysinfo_n_cpus(const char *root);

#endif
