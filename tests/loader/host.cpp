// A program that knows no HIP: loads plugins, each in a scope of its own, and runs them one after
// the other. Arguments: the plugins' paths, --, the arguments of every plugin.
#include <dlfcn.h>

#include <cstdio>
#include <cstring>

int main(int argc, char** argv) {
  int end = 1;
  while (end < argc && std::strcmp(argv[end], "--") != 0) ++end;
  for (int i = 1; i < end; ++i) {
    void* plugin = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
    using Run = int (*)(int, char**);
    const auto run =
        plugin != nullptr ? reinterpret_cast<Run>(dlsym(plugin, "run_plugin")) : nullptr;
    if (run == nullptr) {
      std::fprintf(stderr, "host: %s\n", dlerror());
      return 3;
    }
    if (const int failed = run(argc - end, argv + end); failed != 0) return failed;
  }
  return 0;
}
