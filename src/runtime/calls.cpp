#include "runtime/calls.h"

#include <fmt/format.h>

#include <atomic>

#include "runtime/last_error.h"
#include "runtime/real.h"

namespace hipgraft::runtime {
namespace {

using namespace abi;

hipGraphNode_t as_node(std::uint64_t node) { return reinterpret_cast<hipGraphNode_t>(node); }
std::uint64_t as_id(const void* handle) { return reinterpret_cast<std::uint64_t>(handle); }

// hipMalloc and hipFree are refused to a thread that is not Relaxed while a Global capture runs
// that was begun past us.
class Relaxed {
 public:
  Relaxed() { exchange(); }
  ~Relaxed() { exchange(); }
  Relaxed(const Relaxed&) = delete;
  Relaxed& operator=(const Relaxed&) = delete;

 private:
  void exchange() { real().hipThreadExchangeStreamCaptureMode(&mode_); }
  hipStreamCaptureMode mode_ = hipStreamCaptureModeRelaxed;
};

class OnDevice {
 public:
  explicit OnDevice(int device) : before_(current_device()) {
    if (device != before_) real().hipSetDevice(device);
    moved_ = device != before_;
  }
  ~OnDevice() {
    if (moved_) real().hipSetDevice(before_);
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  int before_;
  bool moved_ = false;
};

// Leaked: used until the process ends.
hipStream_t& own_stream_slot(int device) {
  static std::vector<hipStream_t>* const streams = new std::vector<hipStream_t>;
  const auto index = static_cast<std::size_t>(device);
  if (streams->size() <= index) streams->resize(index + 1, nullptr);
  return (*streams)[index];
}

}  // namespace

CaptureView capture_of(hipStream_t stream) {
  const KeepLastError keep;
  CaptureView view;
  unsigned long long id = 0;
  const hipGraphNode_t* terminals = nullptr;
  std::size_t count = 0;
  const hipError_t result =
      real().hipStreamGetCaptureInfo_v2(stream, &view.status, &id, &view.graph, &terminals, &count);
  if (result != hipSuccess) return {};
  if (!view.active()) return view;
  view.id = id;
  view.terminals.reserve(count);
  for (std::size_t i = 0; i < count; ++i) view.terminals.push_back(as_id(terminals[i]));
  return view;
}

bool set_terminals(hipStream_t stream, const std::vector<std::uint64_t>& nodes) {
  const KeepLastError keep;
  std::vector<hipGraphNode_t> handles;
  handles.reserve(nodes.size());
  for (const std::uint64_t node : nodes) handles.push_back(as_node(node));
  return real().hipStreamUpdateCaptureDependencies(stream, handles.data(), handles.size(),
                                                   hipStreamSetCaptureDependencies) == hipSuccess;
}

void reset_invalidated(hipStream_t stream) {
  const KeepLastError keep;
  if (real().hipStreamBeginCapture(stream, hipStreamCaptureModeRelaxed) != hipSuccess) return;
  hipGraph_t empty = nullptr;
  if (real().hipStreamEndCapture(stream, &empty) == hipSuccess) real().hipGraphDestroy(empty);
}

bool dependencies_of(std::uint64_t node, std::vector<std::uint64_t>& out) {
  const KeepLastError keep;
  // Most nodes have one dependency: one call with room for a few suffices. A full answer may be
  // cut.
  constexpr std::size_t kFew = 4;
  hipGraphNode_t few[kFew];
  std::size_t count = kFew;
  if (real().hipGraphNodeGetDependencies(as_node(node), few, &count) != hipSuccess) return false;
  if (count < kFew) {
    for (std::size_t i = 0; i < count; ++i) out.push_back(as_id(few[i]));
    return true;
  }
  if (real().hipGraphNodeGetDependencies(as_node(node), nullptr, &count) != hipSuccess)
    return false;
  std::vector<hipGraphNode_t> many(count);
  if (real().hipGraphNodeGetDependencies(as_node(node), many.data(), &count) != hipSuccess) {
    return false;
  }
  for (std::size_t i = 0; i < count; ++i) out.push_back(as_id(many[i]));
  return true;
}

std::vector<std::uint64_t> nodes_of(hipGraph_t graph) {
  const KeepLastError keep;
  std::size_t count = 0;
  if (real().hipGraphGetNodes(graph, nullptr, &count) != hipSuccess || count == 0) return {};
  std::vector<hipGraphNode_t> handles(count);
  if (real().hipGraphGetNodes(graph, handles.data(), &count) != hipSuccess) return {};
  std::vector<std::uint64_t> nodes;
  nodes.reserve(count);
  for (std::size_t i = 0; i < count; ++i) nodes.push_back(as_id(handles[i]));
  return nodes;
}

std::vector<std::pair<std::uint64_t, std::uint64_t>> edges_of(hipGraph_t graph) {
  const KeepLastError keep;
  std::size_t count = 0;
  if (real().hipGraphGetEdges(graph, nullptr, nullptr, &count) != hipSuccess || count == 0) {
    return {};
  }
  std::vector<hipGraphNode_t> from(count);
  std::vector<hipGraphNode_t> to(count);
  if (real().hipGraphGetEdges(graph, from.data(), to.data(), &count) != hipSuccess) return {};
  std::vector<std::pair<std::uint64_t, std::uint64_t>> edges;
  edges.reserve(count);
  for (std::size_t i = 0; i < count; ++i) edges.emplace_back(as_id(from[i]), as_id(to[i]));
  return edges;
}

std::optional<hipGraphNodeType> type_of(std::uint64_t node) {
  const KeepLastError keep;
  hipGraphNodeType type{};
  if (real().hipGraphNodeGetType(as_node(node), &type) != hipSuccess) return std::nullopt;
  return type;
}

hipGraphExec_t instantiate(hipGraph_t graph, unsigned long long flags, int device) {
  const KeepLastError keep;
  const OnDevice there(device);
  hipGraphExec_t exec = nullptr;
  const hipError_t result =
      real().hipGraphInstantiateWithFlags(&exec, graph, flags & ~kGraphInstantiateFlagUpload);
  return result == hipSuccess ? exec : nullptr;
}

bool update(hipGraphExec_t exec, hipGraph_t graph) {
  const KeepLastError keep;
  hipGraphNode_t error_node = nullptr;
  hipGraphExecUpdateResult result{};
  return real().hipGraphExecUpdate(exec, graph, &error_node, &result) == hipSuccess;
}

void destroy_exec(hipGraphExec_t exec) {
  const KeepLastError keep;
  real().hipGraphExecDestroy(exec);
}

void* kernel_of(std::uint64_t node) {
  const KeepLastError keep;
  hipKernelNodeParams params{};
  if (real().hipGraphKernelNodeGetParams(as_node(node), &params) != hipSuccess) return nullptr;
  return params.func;
}

std::string kernel_name(void* function) {
  const KeepLastError keep;
  // The node keeps what the caller passed: a handle registered by the compiler for <<<>>>, else a
  // module's function (hip_graph.cpp of 5.7 to 7.2).
  const char* name = real().hipKernelNameRefByPtr(function, nullptr);
  if (name == nullptr) name = real().hipKernelNameRef(static_cast<hipFunction_t>(function));
  return name != nullptr ? name : "";
}

void* allocate(int device, std::size_t bytes) {
  const KeepLastError keep;
  const Relaxed relaxed;
  const OnDevice on(device);
  void* memory = nullptr;
  return real().hipMalloc(&memory, bytes) == hipSuccess ? memory : nullptr;
}

void release(int device, void* memory) {
  const KeepLastError keep;
  const Relaxed relaxed;
  const OnDevice on(device);
  real().hipFree(memory);
}

hipError_t free_async(void* memory, hipStream_t stream) {
  const KeepLastError keep;
  return real().hipFreeAsync(memory, stream);
}

hipMemPool_t current_pool(int device) {
  const KeepLastError keep;
  hipMemPool_t pool = nullptr;
  return real().hipDeviceGetMemPool(&pool, device) == hipSuccess ? pool : nullptr;
}

hipMemPool_t default_pool(int device) {
  const KeepLastError keep;
  hipMemPool_t pool = nullptr;
  return real().hipDeviceGetDefaultMemPool(&pool, device) == hipSuccess ? pool : nullptr;
}

hipError_t fill(void* memory, int value, std::size_t bytes, hipStream_t stream) {
  const KeepLastError keep;
  return real().hipMemsetAsync(memory, value, bytes, stream);
}

hipGraphNode_t add_empty_node(hipGraph_t graph, const hipGraphNode_t* dependencies,
                              std::size_t count, hipError_t& error) {
  const KeepLastError keep;
  hipGraphNode_t node = nullptr;
  error = real().hipGraphAddEmptyNode(&node, graph, dependencies, count);
  return error == hipSuccess ? node : nullptr;
}

hipError_t record_event(hipEvent_t& event, hipStream_t stream, int device) {
  const KeepLastError keep;
  const OnDevice on(device);
  if (event == nullptr) {
    const hipError_t created = real().hipEventCreateWithFlags(&event, kEventDisableTiming);
    if (created != hipSuccess) return created;
  }
  return real().hipEventRecord(event, stream);
}

hipError_t wait_event(hipStream_t stream, hipEvent_t event) {
  const KeepLastError keep;
  return real().hipStreamWaitEvent(stream, event, 0);
}

bool event_done(hipEvent_t event) {
  const KeepLastError keep;
  const Relaxed relaxed;
  return event == nullptr || real().hipEventQuery(event) == hipSuccess;
}

void destroy_event(hipEvent_t event) {
  const KeepLastError keep;
  if (event != nullptr) real().hipEventDestroy(event);
}

hipStream_t own_stream(int device) {
  hipStream_t& stream = own_stream_slot(device);
  if (stream == nullptr) {
    const KeepLastError keep;
    const OnDevice on(device);
    if (real().hipStreamCreateWithFlags(&stream, kStreamNonBlocking) != hipSuccess) {
      stream = nullptr;
    }
  }
  return stream;
}

void synchronize(int device) {
  const KeepLastError keep;
  const OnDevice on(device);
  real().hipDeviceSynchronize();
}

int current_device() {
  const KeepLastError keep;
  int device = 0;
  real().hipGetDevice(&device);
  return device;
}

void forget_own_stream(int device) { own_stream_slot(device) = nullptr; }

bool is_leaf(std::uint64_t node) {
  const KeepLastError keep;
  std::size_t count = 0;
  return real().hipGraphNodeGetDependentNodes(as_node(node), nullptr, &count) == hipSuccess &&
         count == 0;
}

std::vector<std::uint64_t> dependents_of(std::uint64_t node) {
  const KeepLastError keep;
  std::size_t count = 0;
  if (real().hipGraphNodeGetDependentNodes(as_node(node), nullptr, &count) != hipSuccess) return {};
  std::vector<hipGraphNode_t> handles(count);
  if (count != 0 &&
      real().hipGraphNodeGetDependentNodes(as_node(node), handles.data(), &count) != hipSuccess) {
    return {};
  }
  std::vector<std::uint64_t> nodes;
  for (std::size_t i = 0; i < count; ++i) nodes.push_back(as_id(handles[i]));
  return nodes;
}

bool add_edge(hipGraph_t graph, std::uint64_t from, std::uint64_t to) {
  const KeepLastError keep;
  const hipGraphNode_t first = as_node(from);
  const hipGraphNode_t second = as_node(to);
  return real().hipGraphAddDependencies(graph, &first, &second, 1) == hipSuccess;
}

bool several_devices() {
  static std::atomic<int> count{0};
  int known = count.load(std::memory_order_relaxed);
  if (known == 0) {
    known = device_count();
    count.store(known, std::memory_order_relaxed);
  }
  return known > 1;
}

int device_count() {
  const KeepLastError keep;
  int count = 0;
  return real().hipGetDeviceCount(&count) == hipSuccess ? count : 0;
}

int device_of(hipStream_t stream) {
  if (!several_devices()) return 0;
  const KeepLastError keep;
  hipDevice_t device = 0;
  if (real().hipStreamGetDevice != nullptr &&
      real().hipStreamGetDevice(stream, &device) == hipSuccess) {
    return device;
  }
  return current_device();
}

const char* error_name(hipError_t error) {
  const char* name = real().hipGetErrorName(error);
  return name != nullptr ? name : "unknown error";
}

int packed_version() {
  const KeepLastError keep;
  int packed = 0;
  return real().hipRuntimeGetVersion(&packed) == hipSuccess ? packed : 0;
}

int major_version() { return packed_version() / 10'000'000; }

std::string version() {
  const int packed = packed_version();
  if (packed == 0) return {};
  return fmt::format("{}.{}.{}", packed / 10'000'000, packed / 100'000 % 100, packed % 100'000);
}

std::vector<std::string> device_names() {
  const int count = device_count();
  const KeepLastError keep;
  std::vector<std::string> names;
  for (int device = 0; device < count; ++device) {
    char name[256] = "";
    real().hipDeviceGetName(name, sizeof name, device);
    names.emplace_back(name);
  }
  return names;
}

}  // namespace hipgraft::runtime
