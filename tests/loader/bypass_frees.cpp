// A library that frees device memory. Loaded with RTLD_DEEPBIND its calls lead straight into the
// runtime that it is linked with; built with BYPASS_BY_NEXT it takes them, at start, from behind
// the object it is in itself.
#include <hip/hip_runtime_api.h>

#ifdef BYPASS_BY_NEXT
#include <dlfcn.h>

namespace {

using Free = hipError_t (*)(void*);
using FreeAsync = hipError_t (*)(void*, hipStream_t);
Free next_free = nullptr;
FreeAsync next_free_async = nullptr;

__attribute__((constructor)) void find() {
  next_free = reinterpret_cast<Free>(dlsym(RTLD_NEXT, "hipFree"));
  next_free_async = reinterpret_cast<FreeAsync>(dlsym(RTLD_NEXT, "hipFreeAsync"));
}

}  // namespace

#define FREE next_free
#define FREE_ASYNC next_free_async
#else
#define FREE hipFree
#define FREE_ASYNC hipFreeAsync
#endif

extern "C" {

__attribute__((visibility("default"))) int release(void* address) { return FREE(address); }

__attribute__((visibility("default"))) int release_async(void* address, hipStream_t stream) {
  return FREE_ASYNC(address, stream);
}
}
