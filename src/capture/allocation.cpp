#include "capture/allocation.h"

#include <fmt/format.h>

#include <algorithm>

#include "capture/beside.h"
#include "capture/host_blocks.h"
#include "capture/ordering.h"
#include "capture/plans.h"
#include "capture/pools.h"
#include "capture/records.h"
#include "capture/session.h"
#include "runtime/bypass.h"
#include "runtime/calls.h"
#include "runtime/last_error.h"
#include "util/size.h"

namespace hipgraft::capture {
namespace {

using namespace abi;
using arena::Address;

// What HIPGRAFT_ARENA=poison fills blocks with: not-a-number in every floating-point type before
// the program has written, something else after it has freed.
constexpr int kFreshPoison = 0xff;
constexpr int kFreedPoison = 0xdd;

void count_fallback(report::ArenaUse& use, const std::string& reason) {
  const auto known =
      std::find_if(use.native_fallbacks.begin(), use.native_fallbacks.end(),
                   [&](const report::NamedCount& entry) { return entry.name == reason; });
  if (known != use.native_fallbacks.end()) {
    ++known->count;
    return;
  }
  use.native_fallbacks.push_back({reason, 1});
}

void count_fallback(Session& session, const std::string& reason) {
  const std::lock_guard lock(state().mutex);
  count_fallback(session.arena, reason);
}

// A free of memory that the arena did not serve. Not worth a word where it served nothing.
void count_foreign_free(Session& session) {
  constexpr const char* kReason = "hipFreeAsync of memory that is not from this arena";
  const std::lock_guard lock(state().mutex);
  const auto& fallbacks = session.arena.native_fallbacks;
  const bool served = options().arena != config::Arena::off &&
                      (fallbacks.empty() || fallbacks.front().name == kReason);
  if (served) count_fallback(session.arena, kReason);
}

// With the lock held. `first`: bytes of the request that it is made for.
MemoryRef memory_on(Session& session, int device, std::size_t first) {
  for (const MemoryRef& memory : session.own) {
    if (memory->device == device) return memory;
  }
  auto memory = std::make_shared<Memory>(device, state().device(device).chunks, reuse_rule(),
                                         plan_for(session.begun.caller, device, first));
  session.own.push_back(memory);
  session.holder.memories.push_back(memory);
  return memory;
}

// With the lock held. Nothing when the chunks have no room.
std::optional<Address> place(Session& session, int device, std::size_t bytes,
                             const std::vector<dag::NodeId>& terminals) {
  State& s = state();
  const MemoryRef memory = memory_on(session, device, bytes);
  const std::optional<Address> address =
      memory->region.allocate(bytes, session.mirror.frontier(terminals));
  if (!address) return std::nullopt;
  s.blocks[*address] = Block{memory.get(), nullptr, bytes};
  s.placed.add(*address, bytes);
  s.zombies.erase(*address);
  ++session.avoided_allocs;
  ++session.arena.requests;
  session.arena.bytes_requested += bytes;
  return address;
}

std::uint64_t arena_bytes() {
  State& s = state();
  std::uint64_t total = 0;
  for (const auto& [number, device] : s.devices) total += device.chunks.total_bytes();
  return total;
}

// The look that in_arena() takes first sees the chunk from now on. With the lock held.
void widen_arena(arena::Extent chunk) {
  State& s = state();
  s.lowest.store(std::min(s.lowest.load(), chunk.address), std::memory_order_release);
  s.highest.store(std::max(s.highest.load(), chunk.end()), std::memory_order_release);
}

// Gets a chunk that a block of `bytes` fits into. False when there is none to be had; `why` says
// so.
bool grow(int device, std::size_t bytes, std::string& why) {
  State& s = state();
  const std::uint64_t needed = arena::round_up(bytes, 4096);
  std::uint64_t size = 0;
  {
    const std::lock_guard lock(s.mutex);
    const std::uint64_t room =
        options().arena_limit - std::min(options().arena_limit, arena_bytes());
    size = std::max(needed, std::min(options().arena_chunk, room));
    if (size > room) {
      why = fmt::format("the arena holds {} and may not grow past HIPGRAFT_ARENA_LIMIT={}",
                        util::human_size(arena_bytes()), util::print_size(options().arena_limit));
      return false;
    }
  }
  void* memory = runtime::allocate(device, size);
  if (memory == nullptr) {
    why = fmt::format("the device has no room for a chunk of {}", util::human_size(size));
    return false;
  }
  const auto address = reinterpret_cast<Address>(memory);
  const std::lock_guard lock(s.mutex);
  s.device(device).chunks.add({address, size});
  widen_arena({address, size});
  return true;
}

// Nothing when there is no memory to be had.
std::optional<Address> place_or_grow(Call call, const Position& at, int device, std::size_t bytes) {
  Session& session = *at.session;
  for (;;) {
    std::size_t needed = 0;
    {
      const std::lock_guard lock(state().mutex);
      if (const auto address = place(session, device, bytes, at.terminals)) return address;
      needed = memory_on(session, device, bytes)->region.needed(bytes);
    }
    std::string why;
    if (grow(device, needed, why)) {
      const std::lock_guard lock(state().mutex);
      ++session.arena.grown_in_capture;
      continue;
    }
    if (trim(Trim::all)) continue;  // what nobody uses made room
    if (needed > arena::round_up(bytes, arena::kAlignment)) {
      const std::lock_guard lock(state().mutex);
      memory_on(session, device, bytes)->region.drop_plan();
      continue;
    }
    note_first_cause(session, call, hipErrorOutOfMemory,
                     fmt::format("{} were asked for but {}", util::human_size(bytes), why));
    return std::nullopt;
  }
}

// For frees of a pointer into the arena at which no block is alive.
hipError_t answer_dead(void* pointer) {
  State& s = state();
  {
    const std::lock_guard lock(s.mutex);
    if (s.zombies.erase(reinterpret_cast<Address>(pointer)) != 0) return hipSuccess;
  }
  return runtime::answer(hipErrorInvalidValue);
}

bool belongs_to(const Session& session, const Memory& memory) {
  return std::any_of(session.own.begin(), session.own.end(),
                     [&](const MemoryRef& own) { return own.get() == &memory; });
}

bool frees(const Session& session, Address address) {
  const std::vector<Address>& list = session.holder.frees;
  return std::find(list.begin(), list.end(), address) != list.end();
}

// A free that the capture records. False when it has freed the block already. With the lock held.
bool free_in_capture(Session& session, Address address, Memory& memory, dag::Marks marks) {
  if (belongs_to(session, memory)) {
    state().blocks.erase(address);
    return memory.region.free(address, std::move(marks));
  }
  if (frees(session, address)) return false;
  // A block of another graph, which this one may use up to here: freed by each launch.
  session.holder.borrowed.push_back(memory.shared_from_this());
  session.holder.frees.push_back(address);
  return true;
}

// A free that a node of the session's graph stands for. False when no block is alive there.
bool free_behind(Session& session, Address address, dag::Marks marks) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const auto block = s.blocks.find(address);
  if (block == s.blocks.end()) return false;
  const bool freed = free_in_capture(session, address, *block->second.memory, std::move(marks));
  if (freed) ++session.avoided_frees;
  return freed;
}

// Bytes of the block of this capture that is alive there; 0 if there is none.
std::size_t own_block(const Session& session, Address address) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const auto block = s.blocks.find(address);
  const bool own = block != s.blocks.end() && belongs_to(session, *block->second.memory);
  return own ? block->second.bytes : 0;
}

void poison(Session& session, void* pointer, std::size_t bytes, int value, hipStream_t stream) {
  if (options().arena != config::Arena::poison || bytes == 0) return;
  if (runtime::fill(pointer, value, bytes, stream) != hipSuccess) return;
  const std::lock_guard lock(state().mutex);
  ++session.poisonings;
}

// A free on a stream that runs: the program's uses precede this point of it, and the next user of
// the bytes will be ordered behind it.
bool free_escaped(Address address, hipStream_t stream) {
  State& s = state();
  const StreamAt at(stream);
  {
    const std::lock_guard lock(s.mutex);
    const auto block = s.blocks.find(address);
    if (block == s.blocks.end() || block->second.owned == nullptr) return false;
    const arena::Fence fence = fence_of(at);
    arena::add_fence(block->second.memory->region.fences(), fence);
    issued(fence);
    give_up_block(address);
  }
  // Other threads cannot record anything on a thread's own stream later.
  if (at.key.per_thread()) seal(stream);
  return true;
}

// What free_now found at its address.
enum class Found { nothing, captured, escaped };

// The capture that has allocated the block and not freed it; null if there is none.
SessionRef capture_of_block(Address address) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const auto block = s.blocks.find(address);
  if (block == s.blocks.end()) return nullptr;
  for (const auto& [id, session] : s.sessions) {
    if (belongs_to(*session, *block->second.memory)) return session;
  }
  return nullptr;
}

Found free_unordered(Address address, int& device) {
  if (const SessionRef session = capture_of_block(address)) {
    const dag::Marks marks = marks_of_all(session);
    const std::lock_guard lock(state().mutex);
    const auto block = state().blocks.find(address);
    if (block == state().blocks.end()) return Found::nothing;
    free_in_capture(*session, address, *block->second.memory, marks);
    return Found::captured;
  }
  const std::lock_guard lock(state().mutex);
  const auto block = state().blocks.find(address);
  if (block == state().blocks.end() || block->second.owned == nullptr) return Found::nothing;
  device = block->second.memory->device;
  return Found::escaped;
}

// A free on a stream outside the capture that has allocated the block: nothing tells what of the
// capture precedes it. False when no block of a capture is alive there.
bool free_outside(Address address) {
  const SessionRef session = capture_of_block(address);
  return session != nullptr && free_behind(*session, address, {.places = {}, .never = true});
}

// The device that the request is for; nothing if it is better left to the runtime, `why` says why.
std::optional<int> device_for(hipStream_t stream, hipMemPool_t handle, const char*& why) {
  if (handle == nullptr) return runtime::device_of(stream);
  const std::optional<Pool> pool = pool_of(handle);
  if (pool && pool->exportable) {
    why = "hipMallocFromPoolAsync from a pool that other processes may share";
    return std::nullopt;
  }
  if (pool) return pool->device;
  if (!runtime::several_devices()) return 0;
  why = "hipMallocFromPoolAsync from a pool of an unknown device";
  return std::nullopt;
}

// hipMallocAsync with a size that no device has is the runtime's to refuse.
constexpr std::size_t kLargest = std::size_t{1} << 46;

// With all that uses it.
void forget_memory(int device) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  std::vector<MemoryRef> owned;  // ends after the blocks: a memory's end removes blocks too
  for (auto& [address, block] : s.blocks) {
    if (block.memory->device != device) continue;
    block.memory->forget();
    block.memory->dormant.clear();
    if (block.owned != nullptr) owned.push_back(std::move(block.owned));
  }
  std::erase_if(s.blocks, [&](const auto& block) { return block.second.memory->device == device; });
  const auto forget = [&](const MemoryRef& memory) {
    if (memory->device == device) memory->forget();
  };
  const auto forget_all = [&](const Holder& holder) {
    std::for_each(holder.memories.begin(), holder.memories.end(), forget);
    std::for_each(holder.borrowed.begin(), holder.borrowed.end(), forget);
  };
  for (const auto& entry : s.sessions) forget_all(entry.second->holder);
  for (const auto& entry : s.graphs) forget_all(entry.second);
  for (const auto& entry : s.execs) forget_all(entry.second);
  s.device(device).chunks.forget();
}

}  // namespace

void give_up_block(Address address) {
  State& s = state();
  const auto block = s.blocks.find(address);
  if (block == s.blocks.end() || block->second.owned == nullptr) return;
  const MemoryRef last = std::move(block->second.owned);
  last->dormant.push_back(address);
  last->settled.store(nullptr);
}

Answer allocate(Call call, void** pointer, std::size_t bytes, hipStream_t stream,
                hipMemPool_t pool) {
  State& s = state();
  if (s.live_sessions.load(std::memory_order_acquire) == 0) return std::nullopt;
  if (pointer == nullptr || bytes == 0 || bytes > kLargest) return std::nullopt;
  std::optional<Position> at = position(stream);
  if (!at) return std::nullopt;
  Session& session = *at->session;
  if (options().arena == config::Arena::off) {
    count_fallback(session, "HIPGRAFT_ARENA=off");
    return std::nullopt;
  }
  if (!at->known) {
    count_fallback(session, "the captured graph could not be read");
    return std::nullopt;
  }
  if (const char* object = runtime::object_that_bypasses()) {
    count_fallback(session, fmt::format("{} frees past hipgraft", object));
    return std::nullopt;
  }
  const char* why = nullptr;
  const std::optional<int> device = device_for(stream, pool, why);
  if (!device) {
    count_fallback(session, why);
    return std::nullopt;
  }
  const std::optional<Address> address = place_or_grow(call, *at, *device, bytes);
  if (!address) return runtime::answer(hipErrorOutOfMemory);
  *pointer = reinterpret_cast<void*>(*address);
  count_request(session, call, bytes);
  poison(session, *pointer, bytes, kFreshPoison, stream);
  return hipSuccess;
}

void reserve(Call call, hipStream_t stream) {
  State& s = state();
  if (options().arena == config::Arena::off) return;
  {
    const std::lock_guard lock(s.mutex);
    if (s.plans.empty()) return;
  }
  const int device = runtime::device_of(stream);
  std::uint64_t bytes = 0;
  {
    const std::lock_guard lock(s.mutex);
    bytes = expected_bytes(call.caller, device);
    if (bytes == 0 || s.device(device).chunks.has_room(bytes)) return;
  }
  std::string why;  // does not matter: the capture may still find room
  grow(device, bytes, why);
}

Answer free_on_stream(void* pointer, hipStream_t stream) {
  if (pointer == nullptr) return std::nullopt;
  State& s = state();
  const bool ours = in_arena(pointer);
  if (!ours && s.live_sessions.load(std::memory_order_acquire) == 0) return std::nullopt;
  std::optional<Position> at = position(stream);
  if (!ours) {
    const Answer freed = free_host_block(pointer, &stream);
    if (!freed && at) count_foreign_free(*at->session);
    return freed;
  }
  if (!at && invalidated(stream)) return runtime::answer(hipErrorStreamCaptureInvalidated);
  const auto address = reinterpret_cast<Address>(pointer);
  if (!at) {
    const bool freed = free_escaped(address, stream) || free_outside(address);
    return freed ? hipSuccess : answer_dead(pointer);
  }
  Session& session = *at->session;
  if (options().arena == config::Arena::poison) {
    poison(session, pointer, own_block(session, address), kFreedPoison, stream);
    at = position(stream);
  }
  const bool freed = at && free_behind(session, address, marks_of(*at));
  return freed ? hipSuccess : answer_dead(pointer);
}

Answer free_by_node(hipGraphNode_t* node, hipGraph_t graph, const hipGraphNode_t* dependencies,
                    std::size_t count, void* pointer) {
  if (node == nullptr || pointer == nullptr || !in_arena(pointer)) return std::nullopt;
  const auto address = reinterpret_cast<Address>(pointer);
  State& s = state();
  {
    const std::lock_guard lock(s.mutex);
    if (!s.blocks.contains(address)) return runtime::answer(hipErrorInvalidValue);
  }
  hipError_t error = hipSuccess;
  const hipGraphNode_t added = runtime::add_empty_node(graph, dependencies, count, error);
  if (added == nullptr) return runtime::answer(error);
  *node = added;
  if (const SessionRef session = session_into(graph)) {
    const bool freed = free_behind(*session, address, marks_of(session, added));
    const std::lock_guard lock(s.mutex);
    ++session->empty_frees;
    return freed ? hipSuccess : runtime::answer(hipErrorInvalidValue);
  }
  const std::lock_guard lock(s.mutex);
  const auto block = s.blocks.find(address);
  if (block == s.blocks.end()) return runtime::answer(hipErrorInvalidValue);
  Holder& holder = s.graphs[reinterpret_cast<std::uint64_t>(graph)];
  holder.borrowed.push_back(block->second.memory->shared_from_this());
  holder.frees.push_back(address);
  return hipSuccess;
}

Answer free_now(void* pointer) {
  if (pointer == nullptr) return std::nullopt;
  if (!in_arena(pointer)) {
    if (freed_beside(pointer)) return runtime::answer(hipErrorInvalidValue);
    return free_host_block(pointer, nullptr);
  }
  const auto address = reinterpret_cast<Address>(pointer);
  int device = 0;
  switch (free_unordered(address, device)) {
    case Found::nothing:
      return answer_dead(pointer);
    case Found::captured:
      return hipSuccess;
    case Found::escaped:
      break;
  }
  wait_like_free(device);
  const std::lock_guard lock(state().mutex);
  give_up_block(address);
  return hipSuccess;
}

bool trim(Trim what) {
  State& s = state();
  if (s.highest.load(std::memory_order_acquire) == 0) return false;
  std::vector<std::pair<int, arena::Extent>> idle;
  {
    const std::lock_guard lock(s.mutex);
    for (auto& [number, device] : s.devices) {
      for (const arena::Extent& chunk : device.chunks.drop_idle(what == Trim::all)) {
        idle.emplace_back(number, chunk);
      }
      if (what == Trim::waited) device.chunks.age();
    }
    if (!idle.empty()) {
      std::erase_if(s.zombies, [&](Address address) {
        return std::any_of(idle.begin(), idle.end(), [&](const auto& chunk) {
          return address >= chunk.second.address && address < chunk.second.end();
        });
      });
    }
  }
  for (const auto& [device, chunk] : idle) {
    runtime::release(device, reinterpret_cast<void*>(chunk.address));
  }
  settle_timelines();
  return !idle.empty();
}

// Freeing something real and useless does just that, with the runtime's own rules.
void wait_like_free(int device) {
  void* useless = runtime::allocate(device, arena::kAlignment);
  if (useless != nullptr) {
    runtime::release(device, useless);
    return;
  }
  // The device is full. This would kill captures, which cannot be where hipFree may wait.
  if (state().live_sessions.load() == 0) runtime::synchronize(device);
}

bool serving() {
  return state().live_sessions.load(std::memory_order_acquire) != 0 &&
         options().arena != config::Arena::off;
}

void adopt(Session& session, int device, arena::Extent freed, const dag::Marks& marks) {
  State& s = state();
  s.device(device).chunks.add_held(freed);
  widen_arena(freed);
  memory_on(session, device, freed.bytes)->region.adopt(freed, marks);
}

std::uint64_t idle_bytes(int device) {
  State& s = state();
  if (s.highest.load(std::memory_order_acquire) == 0) return 0;
  const std::lock_guard lock(s.mutex);
  return s.device(device).chunks.idle_bytes();
}

void forget_device(int device) {
  forget_timelines(device);
  forget_memory(device);
  forget_captures(device);
  forget_frees_beside(device);
}

}  // namespace hipgraft::capture
