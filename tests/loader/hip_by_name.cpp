// Defines the HIP functions that the simulator step calls, for a build of it that is not linked
// with a runtime: each jumps to the function found at start by name. HIP_LIBRARY is the runtime's
// path, ROUTE the way to look: dlsym, dlvsym, getprocaddress or driverentrypoint.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

// Name, and the version node that it has in every runtime.
#define HIP_FUNCTIONS(X)                 \
  X(__hipRegisterFatBinary, "hip_4.2")   \
  X(__hipRegisterFunction, "hip_4.2")    \
  X(__hipUnregisterFatBinary, "hip_4.2") \
  X(hipEventCreateWithFlags, "hip_4.2")  \
  X(hipEventDestroy, "hip_4.2")          \
  X(hipEventRecord, "hip_4.2")           \
  X(hipFree, "hip_4.2")                  \
  X(hipFreeAsync, "hip_5.1")             \
  X(hipGetErrorName, "hip_4.2")          \
  X(hipGraphDestroy, "hip_4.3")          \
  X(hipGraphExecDestroy, "hip_4.3")      \
  X(hipGraphGetEdges, "hip_4.5")         \
  X(hipGraphGetNodes, "hip_4.4")         \
  X(hipGraphInstantiate, "hip_4.3")      \
  X(hipGraphLaunch, "hip_4.3")           \
  X(hipGraphNodeGetType, "hip_4.5")      \
  X(hipLaunchKernel, "hip_4.2")          \
  X(hipMalloc, "hip_4.2")                \
  X(hipMallocAsync, "hip_5.1")           \
  X(hipMemcpy, "hip_4.2")                \
  X(hipMemsetAsync, "hip_4.2")           \
  X(hipModuleGetFunction, "hip_4.2")     \
  X(hipModuleLaunchKernel, "hip_4.2")    \
  X(hipModuleLoadData, "hip_4.2")        \
  X(hipModuleUnload, "hip_4.2")          \
  X(hipStreamBeginCapture, "hip_4.3")    \
  X(hipStreamCreateWithFlags, "hip_4.2") \
  X(hipStreamDestroy, "hip_4.2")         \
  X(hipStreamEndCapture, "hip_4.3")      \
  X(hipStreamSynchronize, "hip_4.2")     \
  X(hipStreamWaitEvent, "hip_4.2")

// The arguments stay where the caller has put them, so that no signature is needed.
#define DEFINE_JUMP(name, version)                            \
  extern "C" {                                                \
  __attribute__((visibility("hidden"))) void* by_name_##name; \
  __attribute__((visibility("hidden"), naked)) void name() {  \
    asm("jmp *by_name_" #name "(%rip)");                      \
  }                                                           \
  }
HIP_FUNCTIONS(DEFINE_JUMP)
#undef DEFINE_JUMP

namespace {

constexpr int kHipVersion = 700;

[[noreturn]] void give_up(const char* what, const char* which) {
  std::fprintf(stderr, "hip_by_name: %s %s\n", what, which);
  std::exit(3);
}

const char* variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) give_up("unset:", name);
  return value;
}

using GetProcAddress = int (*)(const char*, void**, int, unsigned long, void*);
using GetDriverEntryPoint = int (*)(const char*, void**, unsigned long long, void*);

void* look_up(void* library, const char* route, const char* name, const char* version) {
  if (std::strcmp(route, "dlsym") == 0) return dlsym(library, name);
  if (std::strcmp(route, "dlvsym") == 0) return dlvsym(library, name, version);
  void* found = nullptr;
  int status = 0;
  if (std::strcmp(route, "getprocaddress") == 0) {
    const auto find = reinterpret_cast<GetProcAddress>(dlsym(library, "hipGetProcAddress"));
    if (find == nullptr || find(name, &found, kHipVersion, 0, &status) != 0) return nullptr;
  } else if (std::strcmp(route, "driverentrypoint") == 0) {
    const auto find =
        reinterpret_cast<GetDriverEntryPoint>(dlsym(library, "hipGetDriverEntryPoint"));
    if (find == nullptr || find(name, &found, 0, &status) != 0) return nullptr;
  } else {
    give_up("unknown ROUTE", route);
  }
  return found;
}

// Before the constructors that register kernels.
__attribute__((constructor(101))) void find_all() {
  const char* path = variable("HIP_LIBRARY");
  const char* route = variable("ROUTE");
  void* library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) give_up("cannot load", dlerror());
#define FIND(name, version)                                 \
  by_name_##name = look_up(library, route, #name, version); \
  if (by_name_##name == nullptr) give_up("not found:", #name);
  HIP_FUNCTIONS(FIND)
#undef FIND
}

}  // namespace
