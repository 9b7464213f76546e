#include "simulator.h"

#include <stdexcept>

#include "step_kernels.h"

extern const unsigned char step_code_object[];
extern const unsigned char step_bundle[];

namespace sim {
namespace {

constexpr unsigned kBlockSize = 64;

namespace handles {
#define STEP_HANDLE(symbol, name) constinit apps::Kernel<decltype(sim::name)> name{{#symbol}};
STEP_KERNELS(STEP_HANDLE)
}  // namespace handles

#define STEP_HANDLE_ADDRESS(symbol, name) &handles::name,
constexpr apps::KernelHandle* kAllKernels[] = {STEP_KERNELS(STEP_HANDLE_ADDRESS)};

const apps::RegisteredCode registered_code(step_bundle, kAllKernels);

}  // namespace

Simulator::Simulator(const Plan& plan, SimulatorOptions options)
    : plan_(plan),
      options_(options),
      loaded_code_(step_code_object, kAllKernels),
      fork_event_(apps::make_ordering_event()),
      buffers_(plan.counts.size()) {
  const std::size_t streams = options.fork ? kStreams : 1;
  for (std::size_t i = 0; i < streams; ++i) {
    streams_.push_back(apps::make_non_blocking_stream());
    if (i > 0) join_events_[i] = apps::make_ordering_event();
  }
  const std::size_t owned = options.preallocate ? plan.counts.size() : plan.fields;
  for (std::size_t i = 0; i < owned; ++i) {
    owned_.push_back(apps::allocate_device_memory(bytes(i)));
    buffers_[i] = static_cast<std::uint32_t*>(owned_.back().get());
  }
  for (std::size_t field = 0; field < plan.fields; ++field) {
    std::vector<std::uint32_t> values;
    for (std::uint32_t i = 0; i < plan.counts[field]; ++i)
      values.push_back(initial_value(field, i));
    HIP_CHECK(hipMemcpy(buffers_[field], values.data(), bytes(field), hipMemcpyHostToDevice));
  }
}

void Simulator::issue_step() {
  launches_ = 0;
  for (const Op& op : plan_.ops) issue(op);
}

apps::Graph Simulator::capture_step(hipStreamCaptureMode mode) {
  hipGraph_t graph = nullptr;
  HIP_CHECK(hipStreamBeginCapture(origin(), mode));
  issue_step();
  HIP_CHECK(hipStreamEndCapture(origin(), &graph));
  return apps::Graph(graph);
}

std::vector<std::uint32_t> Simulator::read_field(std::size_t field) const {
  std::vector<std::uint32_t> values(plan_.counts[field]);
  HIP_CHECK(hipMemcpy(values.data(), buffers_[field], bytes(field), hipMemcpyDeviceToHost));
  return values;
}

void Simulator::issue(const Op& op) {
  switch (op.kind) {
    case OpKind::kAlloc:
      return allocate(op);
    case OpKind::kFree:
      return release(op);
    case OpKind::kFork:
      return fork();
    case OpKind::kJoin:
      return join();
    case OpKind::kFill:
      HIP_CHECK(hipMemsetAsync(buffers_[op.target], static_cast<int>(op.salt & 0xffu),
                               bytes(op.target), stream_of(op)));
      return;
    case OpKind::kGather:
    case OpKind::kCouple:
    case OpKind::kRelax:
    case OpKind::kAdvect:
    case OpKind::kIntegrate:
      return launch(op);
  }
}

void Simulator::launch(const Op& op) {
  std::uint32_t* const target = buffers_[op.target];
  const std::uint32_t* const source = buffers_[op.source];
  const std::uint32_t count = plan_.counts[op.target];
  const std::uint32_t source_count = plan_.counts[op.source];
  const apps::LaunchShape shape{(count + kBlockSize - 1) / kBlockSize, kBlockSize};
  const apps::LaunchRoute route = next_route();
  const hipStream_t stream = stream_of(op);
  switch (op.kind) {
    case OpKind::kGather:
      return handles::gather(route, shape, stream, target, source, count, source_count, op.salt);
    case OpKind::kCouple:
      return handles::couple(route, shape, stream, target, source, count, source_count, op.salt);
    case OpKind::kRelax:
      return handles::relax(route, shape, stream, target, count, op.salt);
    case OpKind::kAdvect:
      return handles::advect(route, shape, stream, target, source, stencil_of(op), count);
    case OpKind::kIntegrate:
      return handles::integrate(route, shape, stream, target, source, count, source_count, op.salt);
    default:
      throw std::logic_error("not a kernel operation");
  }
}

void Simulator::allocate(const Op& op) {
  if (options_.preallocate) return;
  void* address = nullptr;
  HIP_CHECK(hipMallocAsync(&address, bytes(op.target), stream_of(op)));
  buffers_[op.target] = static_cast<std::uint32_t*>(address);
}

void Simulator::release(const Op& op) {
  if (options_.preallocate) return;
  HIP_CHECK(hipFreeAsync(buffers_[op.target], stream_of(op)));
  buffers_[op.target] = nullptr;
}

void Simulator::fork() {
  if (!options_.fork) return;
  HIP_CHECK(hipEventRecord(fork_event_.get(), origin()));
  for (std::size_t i = 1; i < streams_.size(); ++i) {
    HIP_CHECK(hipStreamWaitEvent(streams_[i].get(), fork_event_.get(), 0));
  }
}

void Simulator::join() {
  for (std::size_t i = 1; i < streams_.size(); ++i) {
    HIP_CHECK(hipEventRecord(join_events_[i].get(), streams_[i].get()));
    HIP_CHECK(hipStreamWaitEvent(origin(), join_events_[i].get(), 0));
  }
}

hipStream_t Simulator::stream_of(const Op& op) const {
  return options_.fork ? streams_[op.stream].get() : origin();
}

std::size_t Simulator::bytes(std::size_t buffer) const {
  return std::size_t{plan_.counts[buffer]} * sizeof(std::uint32_t);
}

apps::LaunchRoute Simulator::next_route() {
  const bool odd = launches_++ % 2 != 0;
  if (options_.launches == Launches::kRegistered) return apps::LaunchRoute::kRegistered;
  if (options_.launches == Launches::kModule) return apps::LaunchRoute::kModule;
  return odd ? apps::LaunchRoute::kModule : apps::LaunchRoute::kRegistered;
}

}  // namespace sim
