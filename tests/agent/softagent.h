/* In-process view of the software HSA agent, meant for tests. Programs that may run without the
 * agent look these up with dlsym(RTLD_DEFAULT, ...). */
#ifndef SOFTAGENT_H
#define SOFTAGENT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Calls so far of an HSA function, by its name, or one of: packets.dispatch, packets.barrier_and,
 * packets.barrier_or, packets.vendor, packets.agent_dispatch, kernels.twin, kernels.builtin,
 * kernels.missing, copies, host_waits (waits of a host thread for a signal that was not ready).
 * Unknown names give 0. */
uint64_t softagent_count(const char* name);

void softagent_reset_counts(void);

/* Device memory in use on all pretend GPUs, physical memory of the virtual memory API included. */
uint64_t softagent_device_bytes(void);

/* The same of one GPU; 0 if there is no such GPU. */
uint64_t softagent_device_bytes_of(int gpu);

/* A CPU twin of a kernel is an exported function twin_<mangled kernel name> of this type. It runs
 * the whole grid. */
typedef void (*softagent_twin_t)(void* kernarg, const uint32_t grid_workitems[3],
                                 const uint16_t block[3]);

#ifdef __cplusplus
}
#endif

#endif
