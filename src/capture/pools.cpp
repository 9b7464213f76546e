#include "capture/pools.h"

#include "runtime/calls.h"

namespace hipgraft::capture {

using namespace abi;

void pool_made(hipMemPool_t pool, const hipMemPoolProps& properties) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.pools[pool] = {properties.location.id, properties.handleTypes != 0};
}

void pool_destroyed(hipMemPool_t pool) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.pools.erase(pool);
}

std::optional<Pool> pool_of(hipMemPool_t handle) {
  State& s = state();
  {
    const std::lock_guard lock(s.mutex);
    const auto made = s.pools.find(handle);
    if (made != s.pools.end()) return made->second;
  }
  for (int device = 0, count = runtime::device_count(); device < count; ++device) {
    if (runtime::default_pool(device) == handle) return Pool{device, false};
  }
  return std::nullopt;
}

}  // namespace hipgraft::capture
