// What the test programs share on the host side: error checks, owners of HIP objects, and kernels
// that can be launched both as registered functions (what a compiler generates for <<<>>>) and
// through a loaded module.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

namespace apps {

class HipError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// "CALL gave CODE NAME at FILE:LINE".
std::string describe_failure(hipError_t code, const char* call, const char* file, int line);

/// Throws HipError unless the code is hipSuccess.
void check(hipError_t code, const char* call, const char* file, int line);

/// For destructors, which cannot throw: prints the failure and counts it.
void check_teardown(hipError_t code, const char* call, const char* file, int line) noexcept;

/// Failures that check_teardown saw. A program that ends with some is not successful.
int teardown_failures() noexcept;

#define HIP_CHECK(call) ::apps::check((call), #call, __FILE__, __LINE__)
#define HIP_CHECK_TEARDOWN(call) ::apps::check_teardown((call), #call, __FILE__, __LINE__)

/// Owner of one HIP handle or pointer; `Traits::destroy(Handle)` ends its life.
template <typename Handle, typename Traits>
class Owner {
 public:
  Owner() = default;
  explicit Owner(Handle handle) : handle_(handle) {}
  Owner(Owner&& other) noexcept : handle_(std::exchange(other.handle_, Handle{})) {}
  Owner& operator=(Owner&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Owner() {
    if (handle_ != Handle{}) Traits::destroy(handle_);
  }

  [[nodiscard]] Handle get() const { return handle_; }
  Handle release() { return std::exchange(handle_, Handle{}); }

 private:
  Handle handle_{};
};

struct StreamTraits {
  static void destroy(hipStream_t stream) { HIP_CHECK_TEARDOWN(hipStreamDestroy(stream)); }
};
struct EventTraits {
  static void destroy(hipEvent_t event) { HIP_CHECK_TEARDOWN(hipEventDestroy(event)); }
};
struct GraphTraits {
  static void destroy(hipGraph_t graph) { HIP_CHECK_TEARDOWN(hipGraphDestroy(graph)); }
};
struct GraphExecTraits {
  static void destroy(hipGraphExec_t exec) { HIP_CHECK_TEARDOWN(hipGraphExecDestroy(exec)); }
};
struct DeviceMemoryTraits {
  static void destroy(void* address) { HIP_CHECK_TEARDOWN(hipFree(address)); }
};

using Stream = Owner<hipStream_t, StreamTraits>;
using Event = Owner<hipEvent_t, EventTraits>;
using Graph = Owner<hipGraph_t, GraphTraits>;
using GraphExec = Owner<hipGraphExec_t, GraphExecTraits>;
using DeviceMemory = Owner<void*, DeviceMemoryTraits>;

Stream make_non_blocking_stream();
Event make_ordering_event();
DeviceMemory allocate_device_memory(std::size_t bytes);
GraphExec instantiate(const Graph& graph);

enum class LaunchRoute { kRegistered, kModule };

/// A device function known by its mangled name. The address of this object is the handle that
/// hipLaunchKernel takes; `function` is what hipModuleLaunchKernel takes.
struct KernelHandle {
  const char* name;
  hipFunction_t function = nullptr;
};

struct LaunchShape {
  unsigned blocks;
  unsigned block_size;
};

void launch(KernelHandle& kernel, LaunchRoute route, LaunchShape shape, hipStream_t stream,
            void** arguments);

/// Adds the parameter types, so that every argument is packed with the type that the kernel has.
template <typename Signature>
struct Kernel;

template <typename... Parameters>
struct Kernel<void(Parameters...)> : KernelHandle {
  void operator()(LaunchRoute route, LaunchShape shape, hipStream_t stream,
                  std::type_identity_t<Parameters>... arguments) {
    void* packed[] = {&arguments...};
    launch(*this, route, shape, stream, packed);
  }
};

/// Registers an offload bundle and its kernels for hipLaunchKernel, as generated constructors do:
/// make it a global object. Bundle and kernels must be constant-initialised.
class RegisteredCode {
 public:
  RegisteredCode(const void* bundle, std::span<KernelHandle* const> kernels);
  ~RegisteredCode();
  RegisteredCode(const RegisteredCode&) = delete;
  RegisteredCode& operator=(const RegisteredCode&) = delete;

 private:
  // The layout that __hipRegisterFatBinary reads.
  struct Wrapper {
    std::uint32_t magic;
    std::uint32_t version;
    const void* bundle;
    void* unused;
  };

  Wrapper wrapper_;
  void** modules_;
};

/// Loads a code object and finds the kernels in it for hipModuleLaunchKernel.
class LoadedCode {
 public:
  LoadedCode(const void* image, std::span<KernelHandle* const> kernels);
  ~LoadedCode();
  LoadedCode(const LoadedCode&) = delete;
  LoadedCode& operator=(const LoadedCode&) = delete;

 private:
  hipModule_t module_ = nullptr;
};

}  // namespace apps
