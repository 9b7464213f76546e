#include "hip_support.h"

#include <atomic>
#include <cstdio>

// In no public header: a compiler emits the calls.
extern "C" {
void** __hipRegisterFatBinary(const void* wrapper);
void __hipUnregisterFatBinary(void** modules);
void __hipRegisterFunction(void** modules, const void* handle, char* device_function,
                           const char* device_name, unsigned thread_limit, void* thread_id,
                           void* block_id, void* block_size, void* grid_size, int* shared_size);
}

namespace apps {
namespace {

constexpr std::uint32_t kWrapperMagic = 0x48495046;  // "HIPF"
constexpr std::uint32_t kWrapperVersion = 1;
constexpr unsigned kNoThreadLimit = ~0u;

std::atomic<int> teardown_failure_count{0};

}  // namespace

std::string describe_failure(hipError_t code, const char* call, const char* file, int line) {
  return std::string(call) + " gave " + std::to_string(static_cast<int>(code)) + ' ' +
         hipGetErrorName(code) + " at " + file + ':' + std::to_string(line);
}

void check(hipError_t code, const char* call, const char* file, int line) {
  if (code != hipSuccess) throw HipError(describe_failure(code, call, file, line));
}

void check_teardown(hipError_t code, const char* call, const char* file, int line) noexcept {
  if (code == hipSuccess) return;
  teardown_failure_count.fetch_add(1);
  std::fprintf(stderr, "%s\n", describe_failure(code, call, file, line).c_str());
}

int teardown_failures() noexcept { return teardown_failure_count.load(); }

Stream make_non_blocking_stream() {
  hipStream_t stream = nullptr;
  HIP_CHECK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  return Stream(stream);
}

Event make_ordering_event() {
  hipEvent_t event = nullptr;
  HIP_CHECK(hipEventCreateWithFlags(&event, hipEventDisableTiming));
  return Event(event);
}

DeviceMemory allocate_device_memory(std::size_t bytes) {
  void* address = nullptr;
  HIP_CHECK(hipMalloc(&address, bytes));
  return DeviceMemory(address);
}

GraphExec instantiate(const Graph& graph) {
  hipGraphExec_t exec = nullptr;
  HIP_CHECK(hipGraphInstantiate(&exec, graph.get(), nullptr, nullptr, 0));
  return GraphExec(exec);
}

void launch(KernelHandle& kernel, LaunchRoute route, LaunchShape shape, hipStream_t stream,
            void** arguments) {
  if (route == LaunchRoute::kRegistered) {
    HIP_CHECK(
        hipLaunchKernel(&kernel, dim3(shape.blocks), dim3(shape.block_size), arguments, 0, stream));
    return;
  }
  HIP_CHECK(hipModuleLaunchKernel(kernel.function, shape.blocks, 1, 1, shape.block_size, 1, 1, 0,
                                  stream, arguments, nullptr));
}

RegisteredCode::RegisteredCode(const void* bundle, std::span<KernelHandle* const> kernels)
    : wrapper_{kWrapperMagic, kWrapperVersion, bundle, nullptr},
      modules_(__hipRegisterFatBinary(&wrapper_)) {
  for (KernelHandle* kernel : kernels) {
    // The runtime only reads the name; its parameter lacks const for historical reasons.
    __hipRegisterFunction(modules_, kernel, const_cast<char*>(kernel->name), kernel->name,
                          kNoThreadLimit, nullptr, nullptr, nullptr, nullptr, nullptr);
  }
}

RegisteredCode::~RegisteredCode() { __hipUnregisterFatBinary(modules_); }

LoadedCode::LoadedCode(const void* image, std::span<KernelHandle* const> kernels) {
  HIP_CHECK(hipModuleLoadData(&module_, image));
  for (KernelHandle* kernel : kernels) {
    HIP_CHECK(hipModuleGetFunction(&kernel->function, module_, kernel->name));
  }
}

LoadedCode::~LoadedCode() { HIP_CHECK_TEARDOWN(hipModuleUnload(module_)); }

}  // namespace apps
