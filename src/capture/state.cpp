#include "capture/state.h"

#include "runtime/calls.h"

namespace hipgraft::capture {
namespace {

constinit const config::Options* options_in_force = nullptr;
constinit thread_local char thread_mark = 0;  // its address tells threads apart

}  // namespace

State& state() {
  static State* const leaked = new State;
  return *leaked;
}

void configure(const config::Options& options) { options_in_force = new config::Options(options); }
const config::Options& options() { return *options_in_force; }

const arena::ReuseRule& reuse_rule() {
  static constexpr arena::OrderedReuse ordered;
  static constexpr arena::NoReuse never;
  if (options().arena == config::Arena::noreuse) return never;
  return ordered;
}

std::uint64_t this_thread() { return reinterpret_cast<std::uint64_t>(&thread_mark); }

abi::hipStream_t spt(abi::hipStream_t stream) {
  return reinterpret_cast<std::uint64_t>(stream) < kPerThreadHandle ? per_thread_stream() : stream;
}

StreamKey key_of(abi::hipStream_t stream) {
  const auto handle = reinterpret_cast<std::uint64_t>(stream);
  if (handle > kPerThreadHandle) return {handle, 0};
  if (handle == kPerThreadHandle) return {handle, this_thread()};
  const int device = runtime::several_devices() ? runtime::current_device() : 0;
  return {handle, static_cast<std::uint64_t>(device)};
}

Memory::~Memory() {
  for (const arena::Region::Live& block : region.live()) state().blocks.erase(block.address);
  for (const arena::Extent& extent : region.extents()) state().placed.erase(extent);
  region.release(region.fences());
}

void Memory::forget() {
  for (const arena::Extent& extent : region.extents()) state().placed.erase(extent);
  region.forget();
}

Device& State::device(int number) {
  return devices.try_emplace(number, options().arena != config::Arena::noreuse).first->second;
}

bool near_arena(const void* pointer) {
  const State& s = state();
  const auto address = reinterpret_cast<arena::Address>(pointer);
  return address >= s.lowest.load(std::memory_order_acquire) &&
         address < s.highest.load(std::memory_order_acquire);
}

bool in_arena(const void* pointer) {
  if (!near_arena(pointer)) return false;
  State& s = state();
  const auto address = reinterpret_cast<arena::Address>(pointer);
  const std::lock_guard lock(s.mutex);
  for (const auto& [number, device] : s.devices) {
    if (device.chunks.contains(address)) return true;
  }
  return false;
}

}  // namespace hipgraft::capture
