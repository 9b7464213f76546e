#include "cli/doctor_child.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

#include "hipgraft/hipgraft.h"

namespace hipgraft::cli {

namespace {

const char* library_around(const void* address) {
  Dl_info info{};
  return dladdr(address, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

int tell_preload() {
  const auto address = reinterpret_cast<const void*>(&hipgraft_version);
  if (address != nullptr) {
    std::printf("version=%s\nlibrary=%s\n", hipgraft_version(), library_around(address));
  }
  std::printf("dlsym=%s\n", library_around(reinterpret_cast<const void*>(&dlsym)));
  return 0;
}

int tell_runtime(const char* path) {
  void* handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    std::printf("error=%s\n", dlerror());
    return 1;
  }
  std::printf("loaded=yes\n");
  std::fflush(stdout);  // the runtime may not come back
  using Version = int(int*);
  const auto version = reinterpret_cast<Version*>(dlsym(handle, "hipRuntimeGetVersion"));
  int number = 0;
  if (version != nullptr && version(&number) == 0) std::printf("version=%d\n", number);
  std::fflush(stdout);
  _Exit(0);  // without the runtime's own tidying
}

}  // namespace

std::optional<int> run_doctor_child(const std::vector<std::string>& arguments) {
  if (arguments.size() == 1 && arguments[0] == kPreloadChild) return tell_preload();
  if (arguments.size() == 2 && arguments[0] == kRuntimeChild) {
    return tell_runtime(arguments[1].c_str());
  }
  return std::nullopt;
}

}  // namespace hipgraft::cli
