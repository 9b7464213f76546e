#include "capture/launch.h"

#include <time.h>

#include <algorithm>

#include "capture/ordering.h"
#include "capture/records.h"
#include "runtime/real.h"

namespace hipgraft::capture {
namespace {

using namespace abi;

std::uint64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

struct Launch {
  std::vector<MemoryRef> memories;
  std::vector<arena::Address> frees;
  arena::Fences waits;
  RecordRef record;
};

// The graph allocates anew what the program has freed since, and frees what it frees.
void run_allocations(const Launch& launch) {
  State& s = state();
  for (const MemoryRef& memory : launch.memories) {
    for (const arena::Address address : memory->returned) s.blocks.emplace(address, memory);
    memory->returned.clear();
  }
  for (const arena::Address address : launch.frees) {
    const auto block = s.blocks.find(address);
    if (block == s.blocks.end()) continue;
    block->second->returned.push_back(address);
    s.blocks.erase(block);
  }
}

// Waits its turn at each memory: the next launch must find this one issued before it records an
// event behind it.
Launch prepare(hipGraphExec_t exec, hipStream_t stream) {
  State& s = state();
  Launch launch;
  std::unique_lock lock(s.mutex);
  const auto holder = s.execs.find(reinterpret_cast<std::uint64_t>(exec));
  if (holder == s.execs.end()) return launch;
  launch.record = holder->second.record;
  launch.memories = holder->second.memories;
  launch.frees = holder->second.frees;
  if (launch.memories.empty()) return launch;
  s.changed.wait(lock, [&] {
    return std::none_of(launch.memories.begin(), launch.memories.end(),
                        [](const MemoryRef& memory) { return memory->launching; });
  });
  const arena::Fence mine = fence_of(stream);
  for (const MemoryRef& memory : launch.memories) {
    memory->launching = true;
    arena::add_fences(launch.waits, memory->region.fences());
    memory->region.fences().assign(1, mine);
  }
  std::erase(launch.waits, mine);
  run_allocations(launch);
  issued(mine);
  return launch;
}

void finish(Launch& launch) {
  State& s = state();
  {
    const std::lock_guard lock(s.mutex);
    for (const MemoryRef& memory : launch.memories) memory->launching = false;
    launch.memories.clear();  // may be the last reference: under the lock
  }
  s.changed.notify_all();
}

}  // namespace

hipError_t launch(hipGraphExec_t exec, hipStream_t stream) {
  const auto& real = runtime::real().hipGraphLaunch;
  Launch launch = prepare(exec, stream);
  if (launch.memories.empty() && launch.record == nullptr) return real(exec, stream);

  const bool ordered = !launch.waits.empty();
  hipError_t result = ordered ? order_after(launch.waits, stream) : hipSuccess;
  const std::uint64_t begun = launch.record != nullptr ? now_ns() : 0;
  if (result == hipSuccess) result = real(exec, stream);
  const std::uint64_t took = launch.record != nullptr ? now_ns() - begun : 0;
  if (!launch.memories.empty()) {
    // Other threads cannot record anything on a thread's own stream later.
    if (key_of(stream).thread != 0) seal(stream);
    finish(launch);
  }
  if (result == hipSuccess && launch.record != nullptr) {
    const std::lock_guard lock(state().mutex);
    record_launch(launch.record, took, ordered);
  }
  return result;
}

}  // namespace hipgraft::capture
