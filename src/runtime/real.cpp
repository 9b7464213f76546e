#include "runtime/real.h"

#include <dlfcn.h>

#include <atomic>
#include <mutex>

#include "util/log.h"

namespace hipgraft::runtime {
namespace {

// Constant-initialised: the first call may come before our own constructors.
constinit Functions functions;
constinit std::atomic<bool> ready{false};
constinit std::mutex finding;
constinit const char* wanted_library = nullptr;
constinit const char* found_library = "";

void* open_wanted() {
  if (wanted_library == nullptr) return RTLD_NEXT;
  void* handle = dlopen(wanted_library, RTLD_NOW | RTLD_LOCAL);
  if (handle != nullptr) return handle;
  log::write(log::Level::warn, "HIPGRAFT_RUNTIME: {}; taking the program's own", dlerror());
  return RTLD_NEXT;
}

void find_all() {
  void* source = open_wanted();
#define HIPGRAFT_FIND(name, result, parameters) \
  functions.name = reinterpret_cast<abi::name##_fn*>(dlsym(source, #name));
#define HIPGRAFT_INTERCEPT HIPGRAFT_FIND
#define HIPGRAFT_CALL HIPGRAFT_FIND
#include "abi/functions.def"
#undef HIPGRAFT_CALL
#undef HIPGRAFT_INTERCEPT
#undef HIPGRAFT_FIND

  Dl_info info;
  if (functions.hipGetLastError != nullptr &&
      dladdr(reinterpret_cast<void*>(functions.hipGetLastError), &info) != 0) {
    found_library = info.dli_fname;
    return;
  }
  log::write(log::Level::error, "no HIP runtime behind this library: HIP calls will fail");
}

}  // namespace

const Functions& real() {
  if (ready.load(std::memory_order_acquire)) return functions;
  const std::lock_guard lock(finding);
  if (!ready.load(std::memory_order_relaxed)) {
    find_all();
    ready.store(true, std::memory_order_release);
  }
  return functions;
}

const char* library_path() {
  real();
  return found_library;
}

void use_library(const char* path) { wanted_library = path; }

}  // namespace hipgraft::runtime
