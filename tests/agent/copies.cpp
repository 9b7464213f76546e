// The copy engine: one thread that takes the first job whose dependencies are done, or any such
// job with SOFTAGENT_ORDER=random.
#include <hsa/hsa_ext_amd.h>

#include <algorithm>
#include <functional>
#include <list>
#include <mutex>
#include <span>

#include "agent.h"
#include "options.h"
#include "order.h"
#include "signals.h"
#include "threads.h"

namespace softagent {
namespace {

struct Job {
  std::function<void()> work;
  std::vector<Signal*> dependencies;
  Signal* completion;

  bool ready() const {
    return std::all_of(dependencies.begin(), dependencies.end(),
                       [](const Signal* signal) { return signal->load() == 0; });
  }
};

class CopyEngine {
 public:
  static CopyEngine& instance() {
    static CopyEngine& engine = *new CopyEngine;
    return engine;
  }

  hsa_status_t submit(std::function<void()> work, uint32_t dependency_count,
                      const hsa_signal_t* dependencies, hsa_signal_t completion) {
    if (dependency_count != 0 && !dependencies) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    if (completion.handle == 0) return HSA_STATUS_ERROR_INVALID_SIGNAL;
    Job job{std::move(work), {}, Signal::from(completion)};
    for (const hsa_signal_t signal : std::span(dependencies, dependency_count)) {
      if (signal.handle == 0) continue;
      Signal::from(signal)->add_observer();
      job.dependencies.push_back(Signal::from(signal));
    }
    {
      const std::lock_guard lock(mutex_);
      jobs_.push_back(std::move(job));
      if (!started_) start_thread("softagent copy", [this] { run(); });
      started_ = true;
    }
    signal_activity().ring();
    return HSA_STATUS_SUCCESS;
  }

 private:
  void run() {
    for (;;) {
      const uint64_t generation = signal_activity().generation();
      std::list<Job> taken;
      bool idle = false;
      {
        const std::lock_guard lock(mutex_);
        const auto job = ready_job();
        if (job != jobs_.end()) taken.splice(taken.end(), jobs_, job);
        idle = jobs_.empty();
      }
      if (!taken.empty()) {
        execute(taken.front());
        continue;
      }
      signal_activity().wait_beyond(generation,
                                    idle ? std::chrono::seconds(1) : std::chrono::milliseconds(2));
    }
  }

  std::list<Job>::iterator ready_job() {
    const auto ready = [](const Job& job) { return job.ready(); };
    if (!options().random_order) return std::find_if(jobs_.begin(), jobs_.end(), ready);
    auto ready_jobs = static_cast<size_t>(std::count_if(jobs_.begin(), jobs_.end(), ready));
    if (ready_jobs == 0) return jobs_.end();
    size_t skipped = chance_.below(ready_jobs);
    return std::find_if(jobs_.begin(), jobs_.end(),
                        [&](const Job& job) { return job.ready() && skipped-- == 0; });
  }

  static void execute(const Job& job) {
    COUNT("copies");
    for (Signal* signal : job.dependencies) signal->remove_observer();
    const uint64_t start = now_ns();
    job.work();
    job.completion->complete(start, now_ns());
  }

  static constexpr uint64_t no_queue = UINT64_MAX;
  std::mutex mutex_;
  std::list<Job> jobs_;
  Chance chance_{no_queue};
  bool started_ = false;
};

std::function<void()> linear_copy(void* dst, const void* src, size_t size) {
  return [=] {
    if (size != 0) std::memmove(dst, src, size);
  };
}

template <class Byte>
Byte* locate(Byte* base, const hsa_pitched_ptr_t& area, const hsa_dim3_t& at, uint32_t y,
             uint32_t z) {
  return base + (size_t{at.z} + z) * area.slice + (size_t{at.y} + y) * area.pitch + at.x;
}

void copy_rectangle(const hsa_pitched_ptr_t& dst, const hsa_dim3_t& dst_offset,
                    const hsa_pitched_ptr_t& src, const hsa_dim3_t& src_offset,
                    const hsa_dim3_t& range) {
  for (uint32_t z = 0; z < range.z; ++z) {
    for (uint32_t y = 0; y < range.y; ++y) {
      std::memmove(locate(static_cast<uint8_t*>(dst.base), dst, dst_offset, y, z),
                   locate(static_cast<const uint8_t*>(src.base), src, src_offset, y, z), range.x);
    }
  }
}

}  // namespace
}  // namespace softagent

using softagent::CopyEngine;

hsa_status_t hsa_amd_memory_async_copy(void* dst, hsa_agent_t, const void* src, hsa_agent_t,
                                       size_t size, uint32_t num_dep_signals,
                                       const hsa_signal_t* dep_signals,
                                       hsa_signal_t completion_signal) {
  SOFTAGENT_CALL_WITH("dst=%p src=%p size=%zu", dst, src, size);
  return CopyEngine::instance().submit(softagent::linear_copy(dst, src, size), num_dep_signals,
                                       dep_signals, completion_signal);
}

hsa_status_t hsa_amd_memory_async_copy_on_engine(void* dst, hsa_agent_t, const void* src,
                                                 hsa_agent_t, size_t size, uint32_t num_dep_signals,
                                                 const hsa_signal_t* dep_signals,
                                                 hsa_signal_t completion_signal,
                                                 hsa_amd_sdma_engine_id_t, bool) {
  SOFTAGENT_CALL_WITH("dst=%p src=%p size=%zu", dst, src, size);
  return CopyEngine::instance().submit(softagent::linear_copy(dst, src, size), num_dep_signals,
                                       dep_signals, completion_signal);
}

hsa_status_t hsa_amd_memory_async_copy_rect(
    const hsa_pitched_ptr_t* dst, const hsa_dim3_t* dst_offset, const hsa_pitched_ptr_t* src,
    const hsa_dim3_t* src_offset, const hsa_dim3_t* range, hsa_agent_t, hsa_amd_copy_direction_t,
    uint32_t num_dep_signals, const hsa_signal_t* dep_signals, hsa_signal_t completion_signal) {
  SOFTAGENT_CALL();
  if (!dst || !dst_offset || !src || !src_offset || !range) {
    return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
  auto work = [dst = *dst, dst_offset = *dst_offset, src = *src, src_offset = *src_offset,
               range = *range] {
    softagent::copy_rectangle(dst, dst_offset, src, src_offset, range);
  };
  return CopyEngine::instance().submit(std::move(work), num_dep_signals, dep_signals,
                                       completion_signal);
}

// Nothing moves: all memory is host memory.
hsa_status_t hsa_amd_svm_prefetch_async(void* ptr, size_t size, hsa_agent_t,
                                        uint32_t num_dep_signals, const hsa_signal_t* dep_signals,
                                        hsa_signal_t completion_signal) {
  SOFTAGENT_CALL_WITH("ptr=%p size=%zu", ptr, size);
  return CopyEngine::instance().submit([] {}, num_dep_signals, dep_signals, completion_signal);
}

hsa_status_t hsa_amd_memory_copy_engine_status(hsa_agent_t, hsa_agent_t,
                                               uint32_t* engine_ids_mask) {
  SOFTAGENT_CALL();
  // The runtime asserts that some engine is there.
  *engine_ids_mask = HSA_AMD_SDMA_ENGINE_0 | HSA_AMD_SDMA_ENGINE_1;
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_memory_get_preferred_copy_engine(hsa_agent_t, hsa_agent_t,
                                                      uint32_t* recommended_ids_mask) {
  SOFTAGENT_CALL();
  *recommended_ids_mask = 0;
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_profiling_async_copy_enable(bool) {
  SOFTAGENT_CALL();
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_profiling_get_async_copy_time(hsa_signal_t signal,
                                                   hsa_amd_profiling_async_copy_time_t* time) {
  SOFTAGENT_CALL();
  if (signal.handle == 0 || !time) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  const softagent::Signal* done = softagent::Signal::from(signal);
  *time = {done->start_ns(), done->end_ns()};
  return HSA_STATUS_SUCCESS;
}
