// Allocates two blocks in a capture, frees one there and the other after the replay, both through
// the functions of a library that is loaded, and checks values. Arguments: how to load it (local or
// deepbind) and its path.
#include <dlfcn.h>
#include <hip/hip_runtime_api.h>

#include <cstdio>
#include <cstring>
#include <vector>

namespace {

#define CHECK(call)                                               \
  do {                                                            \
    if (const int error = static_cast<int>(call); error != 0) {   \
      std::fprintf(stderr, "escape: %s gave %d\n", #call, error); \
      return 1;                                                   \
    }                                                             \
  } while (false)

constexpr std::size_t kBytes = 8192;

struct Frees {
  int (*now)(void*) = nullptr;
  int (*in_order)(void*, hipStream_t) = nullptr;
};

Frees load(const char* how, const char* path) {
  const int deep = std::strcmp(how, "deepbind") == 0 ? RTLD_DEEPBIND : 0;
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL | deep);
  if (library == nullptr) {
    std::fprintf(stderr, "escape: %s\n", dlerror());
    return {};
  }
  return {reinterpret_cast<int (*)(void*)>(dlsym(library, "release")),
          reinterpret_cast<int (*)(void*, hipStream_t)>(dlsym(library, "release_async"))};
}

int check_values(void* address, unsigned char expected) {
  std::vector<unsigned char> values(kBytes);
  CHECK(hipMemcpy(values.data(), address, kBytes, hipMemcpyDeviceToHost));
  for (const unsigned char value : values) {
    if (value == expected) continue;
    std::fprintf(stderr, "escape: a value is %u instead of %u\n", value, expected);
    return 1;
  }
  return 0;
}

int run(const Frees& frees) {
  void* result = nullptr;
  void* kept = nullptr;
  void* freed = nullptr;
  hipStream_t stream = nullptr;
  hipGraph_t graph = nullptr;
  hipGraphExec_t exec = nullptr;
  CHECK(hipMalloc(&result, kBytes));
  CHECK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  CHECK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
  CHECK(hipMallocAsync(&kept, kBytes, stream));
  CHECK(hipMallocAsync(&freed, kBytes, stream));
  CHECK(hipMemsetAsync(kept, 0x11, kBytes, stream));
  CHECK(hipMemsetAsync(freed, 0x22, kBytes, stream));
  CHECK(hipMemcpyAsync(result, freed, kBytes, hipMemcpyDeviceToDevice, stream));
  CHECK(frees.in_order(freed, stream));
  CHECK(hipStreamEndCapture(stream, &graph));
  CHECK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
  CHECK(hipGraphLaunch(exec, stream));
  CHECK(hipStreamSynchronize(stream));
  CHECK(check_values(kept, 0x11));
  CHECK(check_values(result, 0x22));
  CHECK(frees.now(kept));
  CHECK(check_values(result, 0x22));

  // What is allocated now must not be bytes of something alive.
  void* more = nullptr;
  CHECK(hipMalloc(&more, kBytes));
  CHECK(hipMemset(more, 0x33, kBytes));
  CHECK(check_values(result, 0x22));
  CHECK(check_values(more, 0x33));
  CHECK(hipFree(more));
  CHECK(hipGraphExecDestroy(exec));
  CHECK(hipGraphDestroy(graph));
  CHECK(hipStreamDestroy(stream));
  CHECK(hipFree(result));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const Frees frees = load(argv[1], argv[2]);
  if (frees.now == nullptr || frees.in_order == nullptr) return 3;
  const int failed = run(frees);
  std::printf("result %s\n", failed == 0 ? "ok" : "WRONG");
  return failed;
}
