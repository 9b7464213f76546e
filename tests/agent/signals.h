// Signals: a value that threads wait for.
#pragma once

#include <hsa/amd_hsa_signal.h>
#include <hsa/hsa.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <type_traits>

namespace softagent {

using Clock = std::chrono::steady_clock;

// A futex with a count of sleepers, so that nobody sleeping costs one load.
class WaitPoint {
 public:
  void notify() {
    if (sleepers_.load() == 0) return;
    epoch_.fetch_add(1);
    wake_all();
  }

  // True as soon as ready() holds, false after the deadline. ready() is looked at after every
  // notify() and now and then besides: the runtime may write a signal's value behind our back.
  template <class Ready>
  bool wait(Ready&& ready, Clock::time_point deadline = Clock::time_point::max(),
            std::chrono::microseconds look_every = std::chrono::milliseconds(1)) {
    for (int spin = 0; spin < 100; ++spin) {
      if (ready()) return true;
      __builtin_ia32_pause();
    }
    sleepers_.fetch_add(1);
    bool is_ready = false;
    for (;;) {
      const uint32_t epoch = epoch_.load();
      is_ready = ready();
      if (is_ready) break;
      const Clock::time_point now = Clock::now();
      if (now >= deadline) break;
      sleep(epoch, std::min<Clock::duration>(deadline - now, look_every));
    }
    sleepers_.fetch_sub(1);
    return is_ready;
  }

 private:
  void wake_all();
  void sleep(uint32_t epoch, Clock::duration at_most);

  std::atomic<uint32_t> epoch_{0};
  std::atomic<uint32_t> sleepers_{0};
};

// Rung when a signal changes that asynchronous work depends on. Its listeners look through all
// their work then.
class Activity {
 public:
  uint64_t generation() const { return generation_.load(); }
  void ring() {
    generation_.fetch_add(1);
    point_.notify();
  }
  // Until the generation moves on.
  void wait_beyond(uint64_t generation, std::chrono::microseconds at_most) {
    point_.wait([&] { return generation_.load() != generation; }, Clock::now() + at_most, at_most);
  }

 private:
  std::atomic<uint64_t> generation_{0};
  WaitPoint point_;
};

Activity& signal_activity();

// The runtime reads the first 64 bytes itself and takes them for an amd_signal_t.
class Signal {
 public:
  static Signal* create(hsa_signal_value_t initial);
  static void destroy(Signal* signal);
  // Everything that was created before is seen by this thread as it was created.
  static void see_created() { created_.load(); }
  static Signal* from(hsa_signal_t handle) { return reinterpret_cast<Signal*>(handle.handle); }
  hsa_signal_t handle() const { return hsa_signal_t{reinterpret_cast<uint64_t>(this)}; }

  hsa_signal_value_t load() const { return value().load(); }
  void store_silently(hsa_signal_value_t new_value) { value().store(new_value); }

  // Changes the value by `change(std::atomic_ref<hsa_signal_value_t>)` and tells all who wait.
  template <class Change>
  auto update(Change&& change) {
    if constexpr (std::is_void_v<decltype(change(value()))>) {
      change(value());
      changed();
    } else {
      const auto result = change(value());
      changed();
      return result;
    }
  }

  void complete(uint64_t start_ns, uint64_t end_ns);
  uint64_t start_ns() const { return timestamp(amd_.start_ts).load(std::memory_order_relaxed); }
  uint64_t end_ns() const { return timestamp(amd_.end_ts).load(std::memory_order_relaxed); }

  volatile hsa_signal_value_t* value_pointer() { return &amd_.value; }
  WaitPoint& wait_point() { return wait_point_; }
  void add_observer() { observers_.fetch_add(1); }
  void remove_observer() { observers_.fetch_sub(1); }

 private:
  std::atomic_ref<hsa_signal_value_t> value() const {
    return std::atomic_ref<hsa_signal_value_t>(const_cast<hsa_signal_value_t&>(amd_.value));
  }
  // Packets of several queues may complete one signal at the same time.
  static std::atomic_ref<uint64_t> timestamp(const uint64_t& of) {
    return std::atomic_ref<uint64_t>(const_cast<uint64_t&>(of));
  }
  void changed() {
    wait_point_.notify();
    if (observers_.load() != 0) signal_activity().ring();
  }

  static inline std::atomic<uint64_t> created_{0};

  amd_signal_t amd_{};
  WaitPoint wait_point_;
  std::atomic<uint32_t> observers_{0};
};
static_assert(std::is_standard_layout_v<amd_signal_t> && sizeof(amd_signal_t) == 64);

bool condition_holds(hsa_signal_condition_t condition, hsa_signal_value_t value,
                     hsa_signal_value_t operand);

}  // namespace softagent
