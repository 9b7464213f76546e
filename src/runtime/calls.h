// What hipgraft asks of the runtime, in its own terms. None of these disturbs the thread's last
// error. Callers hold no lock: any of them may wait for a lock of the runtime.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "abi/types.h"

namespace hipgraft::runtime {

// A capture as seen from one of its streams.
struct CaptureView {
  abi::hipStreamCaptureStatus status = abi::hipStreamCaptureStatusNone;
  std::uint64_t id = 0;
  abi::hipGraph_t graph = nullptr;
  // What the next call on the stream will depend on. A copy: the runtime's own list lives until the
  // stream captures again.
  std::vector<std::uint64_t> terminals;

  bool active() const { return status == abi::hipStreamCaptureStatusActive; }
};

CaptureView capture_of(abi::hipStream_t stream);
bool set_terminals(abi::hipStream_t stream, const std::vector<std::uint64_t>& nodes);

// After an invalidated EndCapture the runtime (6.4, 7.2) leaves the stream Invalidated and forks
// Active; an empty capture resets them.
void reset_invalidated(abi::hipStream_t stream);

// All false or empty when the runtime refuses.
bool dependencies_of(std::uint64_t node, std::vector<std::uint64_t>& out);
std::vector<std::uint64_t> nodes_of(abi::hipGraph_t graph);
std::vector<std::pair<std::uint64_t, std::uint64_t>> edges_of(abi::hipGraph_t graph);
std::optional<abi::hipGraphNodeType> type_of(std::uint64_t node);
std::vector<std::uint64_t> dependents_of(std::uint64_t node);
// Whether nothing depends on the node.
bool is_leaf(std::uint64_t node);
bool add_edge(abi::hipGraph_t graph, std::uint64_t from, std::uint64_t to);
// The function of a kernel node: a registered host handle or a module's function.
void* kernel_of(std::uint64_t node);
std::string kernel_name(void* function);

// An exec of our own; null when the runtime refuses. Of the flags, a wish to upload is left out.
abi::hipGraphExec_t instantiate(abi::hipGraph_t graph, unsigned long long flags, int device);
// hipGraphExecUpdate; false when the runtime refuses.
bool update(abi::hipGraphExec_t exec, abi::hipGraph_t graph);
void destroy_exec(abi::hipGraphExec_t exec);

// Device memory of its own allocation, on `device`; null when there is none. Allowed while anything
// captures: the calling thread is Relaxed meanwhile.
void* allocate(int device, std::size_t bytes);
// Waits for the device, as hipFree does.
void release(int device, void* memory);
// hipDeviceSynchronize: kills every capture.
void synchronize(int device);

// hipFreeAsync.
abi::hipError_t free_async(void* memory, abi::hipStream_t stream);

// The pool that hipMallocAsync takes from on the device; null when the runtime does not tell.
abi::hipMemPool_t current_pool(int device);
abi::hipMemPool_t default_pool(int device);

// hipMemsetAsync of bytes.
abi::hipError_t fill(void* memory, int value, std::size_t bytes, abi::hipStream_t stream);

// Adds a node that does nothing; null when the runtime refuses, `error` says why.
abi::hipGraphNode_t add_empty_node(abi::hipGraph_t graph, const abi::hipGraphNode_t* dependencies,
                                   std::size_t count, abi::hipError_t& error);

// Events of our own: without timing, created at first use.
// `device` is that of the stream: which null stream is meant depends on it.
abi::hipError_t record_event(abi::hipEvent_t& event, abi::hipStream_t stream, int device);
abi::hipError_t wait_event(abi::hipStream_t stream, abi::hipEvent_t event);
bool event_done(abi::hipEvent_t event);
void destroy_event(abi::hipEvent_t event);

// A non-blocking stream of ours on the device, which never captures; null if there is none to be
// had. Not thread-safe. Never destroyed.
abi::hipStream_t own_stream(int device);
// The runtime has destroyed it with all streams of the device.
void forget_own_stream(int device);

int current_device();
int device_count();
bool several_devices();
// The device that work on `stream` runs on.
int device_of(abi::hipStream_t stream);

const char* error_name(abi::hipError_t error);
int packed_version();  // of HIP: major * 10,000,000 + minor * 100,000 + patch; 0: unknown
int major_version();
std::string version();
std::vector<std::string> device_names();

}  // namespace hipgraft::runtime
