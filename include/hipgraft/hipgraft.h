/* hipgraft's own calls, for programs that want to talk to it. Nothing needs them.
 *
 * All functions are weak: a program that uses this header links without libhipgraft.so. If the
 * library was not preloaded, each function's address is null, and calling it would crash. So test
 * first:
 *
 *   if (hipgraft_mark_step) hipgraft_mark_step("forward");
 *
 * Compile with -fPIC or -fPIE (most compilers' default): without either, the linker may settle the
 * test as false for good.
 *
 * All functions may be called from any thread at any time, also while a stream is capturing. None
 * sets a HIP error or calls exit.
 */
#ifndef HIPGRAFT_HIPGRAFT_H
#define HIPGRAFT_HIPGRAFT_H

#define HIPGRAFT_VERSION_MAJOR 0
#define HIPGRAFT_VERSION_MINOR 1
#define HIPGRAFT_VERSION_PATCH 0
#define HIPGRAFT_VERSION "0.1.0"

/* The library defines this to export what it declares here. */
#ifndef HIPGRAFT_API
#define HIPGRAFT_API __attribute__((weak))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the preloaded library, such as "0.1.0"; compare with HIPGRAFT_VERSION. The string
 * belongs to the library and is never freed. */
HIPGRAFT_API const char* hipgraft_version(void);

/* 1 if hipgraft is at work in this process; 0 if it passes every call through, because HIPGRAFT=off
 * or because no HIP runtime that it knows has been used yet. */
HIPGRAFT_API int hipgraft_active(void);

/* Says that a step of the program (a time step, a training step, a frame) begins here. Null means
 * unnamed. For automatic replay; in this version it has no effect. */
HIPGRAFT_API void hipgraft_mark_step(const char* name);

/* Writes the report to every destination in HIPGRAFT_REPORT now, rather than at exit. Does nothing
 * if there is none. Files are complete when the call returns. */
HIPGRAFT_API void hipgraft_write_report(void);

#ifdef __cplusplus
}
#endif

#endif
