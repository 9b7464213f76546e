#include "capture/beside.h"

#include <algorithm>

#include "capture/ordering.h"
#include "runtime/calls.h"
#include "runtime/last_error.h"
#include "runtime/quirks.h"
#include "runtime/real.h"
#include "util/log.h"

namespace hipgraft::capture {
namespace {

using namespace abi;

// Whether some stream captures, and this one does not.
bool beside(hipStream_t stream) {
  return state().live_sessions.load(std::memory_order_acquire) != 0 &&
         runtime::capture_of(stream).status == hipStreamCaptureStatusNone;
}

bool means_null_stream(hipStream_t stream) {
  return reinterpret_cast<std::uint64_t>(stream) < kPerThreadHandle;
}

// Remembers the free together with what precedes it on its stream.
bool put_off(void* pointer, hipStream_t stream) {
  FreeBeside free;
  free.pointer = pointer;
  free.device = runtime::device_of(stream);
  if (runtime::record_event(free.behind, stream, free.device) != hipSuccess) return false;
  State& s = state();
  {
    const std::lock_guard lock(s.mutex);
    s.frees_beside.push_back(free);
    s.known_frees_beside.fetch_add(1);
  }
  // The last capture may have ended just now, and not have seen this free.
  if (s.live_sessions.load() == 0) run_frees_beside();
  return true;
}

// False when the runtime still refuses.
bool run(const FreeBeside& free) {
  const hipStream_t behind = own_stream_behind(free.behind, free.device);
  if (behind == nullptr) return false;
  const hipError_t result = runtime::free_async(free.pointer, behind);
  if (result == hipErrorStreamCaptureUnsupported) return false;
  if (result != hipSuccess) {
    log::write(log::Level::warn, "hipFreeAsync({}), put off while a stream captured, failed: {}",
               free.pointer, runtime::error_name(result));
  }
  runtime::destroy_event(free.behind);
  return true;
}

}  // namespace

Answer allocate_beside(void** pointer, std::size_t bytes, hipStream_t stream) {
  if (pointer == nullptr || bytes == 0 || !beside(stream)) return std::nullopt;
  const hipMemPool_t pool = runtime::current_pool(runtime::device_of(stream));
  if (pool == nullptr) return std::nullopt;
  return runtime::real().hipMallocFromPoolAsync(pointer, bytes, pool, stream);
}

Answer free_beside(void* pointer, hipStream_t stream) {
  if (!beside(stream)) return std::nullopt;
  if (pointer == nullptr) return runtime::answer(runtime::result_of_null_free());
  if (freed_beside(pointer)) return hipSuccess;  // as the runtime answers a second hipFreeAsync
  if (!means_null_stream(stream)) {
    const hipError_t result = runtime::real().hipFreeAsync(pointer, stream);
    if (result != hipErrorStreamCaptureUnsupported) return result;
  }
  return put_off(pointer, stream) ? hipSuccess : runtime::answer(hipErrorStreamCaptureUnsupported);
}

bool freed_beside(const void* pointer) {
  State& s = state();
  if (s.known_frees_beside.load(std::memory_order_acquire) == 0) return false;
  const std::lock_guard lock(s.mutex);
  return std::any_of(s.frees_beside.begin(), s.frees_beside.end(),
                     [&](const FreeBeside& free) { return free.pointer == pointer; });
}

void forget_frees_beside(int device) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  std::erase_if(s.frees_beside, [&](const FreeBeside& free) { return free.device == device; });
  s.known_frees_beside.store(static_cast<int>(s.frees_beside.size()), std::memory_order_release);
}

void run_frees_beside() {
  State& s = state();
  if (s.known_frees_beside.load(std::memory_order_acquire) == 0) return;
  std::vector<FreeBeside> waiting;
  {
    const std::lock_guard lock(s.mutex);
    waiting.swap(s.frees_beside);
  }
  std::vector<FreeBeside> refused;
  for (const FreeBeside& free : waiting) {
    if (!run(free)) refused.push_back(free);
  }
  const std::lock_guard lock(s.mutex);
  s.frees_beside.insert(s.frees_beside.end(), refused.begin(), refused.end());
  s.known_frees_beside.store(static_cast<int>(s.frees_beside.size()), std::memory_order_release);
}

}  // namespace hipgraft::capture
