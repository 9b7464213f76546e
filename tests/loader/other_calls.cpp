// A plugin that makes a few HIP calls of its own, one capture among them, and checks what they do.
#include <hip/hip_runtime_api.h>

#include <cstdio>
#include <vector>

namespace {

#define CHECK(call)                                                                      \
  do {                                                                                   \
    if (const hipError_t error = (call); error != hipSuccess) {                          \
      std::fprintf(stderr, "other_calls: %s gave %d\n", #call, static_cast<int>(error)); \
      return 1;                                                                          \
    }                                                                                    \
  } while (false)

constexpr std::size_t kBytes = 4096;
constexpr unsigned char kFill = 0x5a;

int run() {
  void* result = nullptr;
  void* block = nullptr;
  hipStream_t stream = nullptr;
  hipGraph_t graph = nullptr;
  hipGraphExec_t exec = nullptr;
  CHECK(hipMalloc(&result, kBytes));
  CHECK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  CHECK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
  CHECK(hipMallocAsync(&block, kBytes, stream));
  CHECK(hipMemsetAsync(block, kFill, kBytes, stream));
  CHECK(hipMemcpyAsync(result, block, kBytes, hipMemcpyDeviceToDevice, stream));
  CHECK(hipFreeAsync(block, stream));
  CHECK(hipStreamEndCapture(stream, &graph));
  CHECK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
  CHECK(hipGraphLaunch(exec, stream));
  CHECK(hipStreamSynchronize(stream));
  std::vector<unsigned char> values(kBytes);
  CHECK(hipMemcpy(values.data(), result, kBytes, hipMemcpyDeviceToHost));
  for (const unsigned char value : values) {
    if (value == kFill) continue;
    std::fprintf(stderr, "other_calls: a value is %u\n", value);
    return 1;
  }
  CHECK(hipGraphExecDestroy(exec));
  CHECK(hipGraphDestroy(graph));
  CHECK(hipStreamDestroy(stream));
  CHECK(hipFree(result));
  return 0;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int run_plugin(int, char**) {
  const int failed = run();
  std::printf("other %s\n", failed == 0 ? "ok" : "WRONG");
  return failed;
}
