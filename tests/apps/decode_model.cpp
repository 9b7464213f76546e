#include "decode_model.h"

#include <algorithm>

#include "decode_kernels.h"

extern const unsigned char decode_bundle[];

namespace decode {
namespace {

constexpr unsigned kBlockSize = 64;
constexpr apps::LaunchRoute kRoute = apps::LaunchRoute::kRegistered;

namespace handles {
#define DECODE_HANDLE(symbol, name) constinit apps::Kernel<decltype(decode::name)> name{{#symbol}};
DECODE_KERNELS(DECODE_HANDLE)
}  // namespace handles

#define DECODE_HANDLE_ADDRESS(symbol, name) &handles::name,
constexpr apps::KernelHandle* kAllKernels[] = {DECODE_KERNELS(DECODE_HANDLE_ADDRESS)};

const apps::RegisteredCode registered_code(decode_bundle, kAllKernels);

PinnedMemory allocate_pinned_memory(std::size_t bytes) {
  void* address = nullptr;
  HIP_CHECK(hipHostMalloc(&address, bytes, hipHostMallocDefault));
  return PinnedMemory(address);
}

template <typename Memory>
std::uint32_t* words(const Memory& memory) {
  return static_cast<std::uint32_t*>(memory.get());
}

}  // namespace

Model::Model(const Plan& plan, bool allocate_in_step)
    : plan_(plan), allocate_in_step_(allocate_in_step), stream_(apps::make_non_blocking_stream()) {
  for (Set& set : sets_) {
    set.host_input = allocate_pinned_memory(input_bytes());
    set.host_output = allocate_pinned_memory(output_bytes());
    set.input = apps::allocate_device_memory(input_bytes());
    set.output = apps::allocate_device_memory(output_bytes());
    set.done = apps::make_ordering_event();
  }
  const auto own = [this](std::size_t bytes) {
    owned_.push_back(apps::allocate_device_memory(bytes));
    return words(owned_.back());
  };
  const std::size_t cache_bytes = output_bytes() * kSlots;
  for (std::size_t layer = 0; layer < plan.layers.size(); ++layer) {
    caches_.push_back(own(cache_bytes));
    HIP_CHECK(hipMemsetAsync(caches_.back(), 0, cache_bytes, stream()));
  }
  at(Buffer::kHidden) = own(output_bytes());
  if (allocate_in_step) return;
  at(Buffer::kFirst) = own(output_bytes());
  at(Buffer::kSecond) = own(output_bytes());
}

void Model::set_input(std::size_t set, std::span<const std::uint32_t> input) {
  std::ranges::copy(input, words(sets_[set].host_input));
}

std::span<const std::uint32_t> Model::output(std::size_t set) const {
  return {words(sets_[set].host_output), plan_.width};
}

void Model::issue_step(std::size_t index) {
  const Set& set = sets_[index];
  std::uint32_t* const hidden = at(Buffer::kHidden);
  HIP_CHECK(hipMemcpyAsync(set.input.get(), set.host_input.get(), input_bytes(),
                           hipMemcpyHostToDevice, stream()));
  handles::embed(kRoute, shape(), stream(), hidden, words(set.input), plan_.width);
  const std::uint32_t* const position = words(set.input) + plan_.width;
  for (std::size_t layer = 0; layer < plan_.layers.size(); ++layer) issue_layer(layer, position);
  handles::unembed(kRoute, shape(), stream(), words(set.output), hidden, plan_.width);
  HIP_CHECK(hipMemcpyAsync(set.host_output.get(), set.output.get(), output_bytes(),
                           hipMemcpyDeviceToHost, stream()));
}

apps::Graph Model::capture_step(std::size_t set) {
  hipGraph_t graph = nullptr;
  HIP_CHECK(hipStreamBeginCapture(stream(), hipStreamCaptureModeGlobal));
  issue_step(set);
  HIP_CHECK(hipStreamEndCapture(stream(), &graph));
  return apps::Graph(graph);
}

void Model::mark_busy(std::size_t set) {
  HIP_CHECK(hipEventRecord(sets_[set].done.get(), stream()));
}

void Model::wait_until_idle(std::size_t set) {
  HIP_CHECK(hipEventSynchronize(sets_[set].done.get()));
}

void Model::issue_layer(std::size_t layer, const std::uint32_t* position) {
  if (allocate_in_step_) allocate_buffers(layer);
  for (const Launch& launch : plan_.layers[layer]) issue(launch, caches_[layer], position);
  if (allocate_in_step_) free_buffers();
}

void Model::issue(const Launch& launch, std::uint32_t* cache, const std::uint32_t* position) {
  std::uint32_t* const target = at(launch.target);
  const std::uint32_t* const source = at(launch.source);
  switch (launch.kernel) {
    case Kernel::kProject:
      return handles::project(kRoute, shape(), stream(), target, source, plan_.width,
                              launch.weight);
    case Kernel::kAttend:
      return handles::attend(kRoute, shape(), stream(), target, source, cache, position,
                             plan_.width);
    case Kernel::kAccumulate:
      return handles::accumulate(kRoute, shape(), stream(), target, source, plan_.width);
  }
}

// The sizes differ from layer to layer, so that memory is not simply handed on.
void Model::allocate_buffers(std::size_t layer) {
  for (const Buffer buffer : {Buffer::kFirst, Buffer::kSecond}) {
    void* address = nullptr;
    HIP_CHECK(hipMallocAsync(&address, output_bytes() * (1 + layer % 3), stream()));
    at(buffer) = static_cast<std::uint32_t*>(address);
  }
}

void Model::free_buffers() {
  for (const Buffer buffer : {Buffer::kFirst, Buffer::kSecond}) {
    HIP_CHECK(hipFreeAsync(at(buffer), stream()));
    at(buffer) = nullptr;
  }
}

std::size_t Model::input_bytes() const { return output_bytes() + sizeof(std::uint32_t); }

std::size_t Model::output_bytes() const { return plan_.width * sizeof(std::uint32_t); }

apps::LaunchShape Model::shape() const {
  return {(plan_.width + kBlockSize - 1) / kBlockSize, kBlockSize};
}

}  // namespace decode
