#include "signals.h"

#include <hsa/hsa_ext_amd.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>
#include <deque>
#include <list>
#include <mutex>
#include <new>
#include <thread>

#include "agent.h"
#include "threads.h"

namespace softagent {

void WaitPoint::wake_all() {
  syscall(SYS_futex, &epoch_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

void WaitPoint::sleep(uint32_t epoch, Clock::duration at_most) {
  const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(at_most).count();
  const timespec timeout{static_cast<time_t>(ns / 1000000000), static_cast<long>(ns % 1000000000)};
  syscall(SYS_futex, &epoch_, FUTEX_WAIT_PRIVATE, epoch, &timeout, nullptr, 0);
}

Activity& signal_activity() {
  static Activity& activity = *new Activity;
  return activity;
}

namespace {

// The runtime, and a worker that has just completed a packet, may still look at a signal after it
// was destroyed. So destroyed signals are used again as late as possible.
class SignalPool {
 public:
  static SignalPool& instance() {
    static SignalPool& pool = *new SignalPool;
    return pool;
  }

  void* take() {
    const std::lock_guard lock(mutex_);
    if (destroyed_.size() < rest_size) return ::operator new (sizeof(Signal), std::align_val_t{64});
    void* memory = destroyed_.front();
    destroyed_.pop_front();
    return memory;
  }

  void give_back(void* memory) {
    const std::lock_guard lock(mutex_);
    destroyed_.push_back(memory);
  }

 private:
  static constexpr size_t rest_size = 16384;
  std::mutex mutex_;
  std::deque<void*> destroyed_;
};

struct AsyncHandler {
  Signal* signal;
  hsa_signal_condition_t condition;
  hsa_signal_value_t operand;
  hsa_amd_signal_handler function;
  void* argument;
};

// One thread calls all handlers, as in the genuine library; a handler that returns true stays.
class AsyncHandlers {
 public:
  static AsyncHandlers& instance() {
    static AsyncHandlers& handlers = *new AsyncHandlers;
    return handlers;
  }

  void add(const AsyncHandler& handler) {
    handler.signal->add_observer();
    {
      const std::lock_guard lock(mutex_);
      incoming_.push_back(handler);
      if (!started_) start_thread("softagent sig", [this] { run(); });
      started_ = true;
    }
    signal_activity().ring();
  }

 private:
  void run() {
    std::list<AsyncHandler> handlers;
    for (;;) {
      const uint64_t generation = signal_activity().generation();
      {
        const std::lock_guard lock(mutex_);
        handlers.splice(handlers.end(), incoming_);
      }
      if (call_ready(handlers)) continue;
      signal_activity().wait_beyond(
          generation, handlers.empty() ? std::chrono::seconds(1) : std::chrono::milliseconds(2));
    }
  }

  static bool call_ready(std::list<AsyncHandler>& handlers) {
    bool called = false;
    for (auto handler = handlers.begin(); handler != handlers.end();) {
      const hsa_signal_value_t value = handler->signal->load();
      if (!condition_holds(handler->condition, value, handler->operand)) {
        ++handler;
        continue;
      }
      called = true;
      if (handler->function(value, handler->argument)) {
        ++handler;
        continue;
      }
      handler->signal->remove_observer();
      handler = handlers.erase(handler);
    }
    return called;
  }

  std::mutex mutex_;
  std::list<AsyncHandler> incoming_;
  bool started_ = false;
};

Clock::time_point deadline_after(uint64_t ns) {
  // Anything beyond a year means for ever; adding it to the clock would overflow.
  if (ns > uint64_t{365} * 24 * 3600 * 1000000000) return Clock::time_point::max();
  return Clock::now() + std::chrono::nanoseconds(ns);
}

hsa_signal_value_t wait_for_signal(hsa_signal_t handle, hsa_signal_condition_t condition,
                                   hsa_signal_value_t operand, uint64_t timeout_ns) {
  Signal& signal = *Signal::from(handle);
  hsa_signal_value_t value = signal.load();
  if (condition_holds(condition, value, operand)) return value;
  const bool ready = signal.wait_point().wait(
      [&] {
        value = signal.load();
        return condition_holds(condition, value, operand);
      },
      deadline_after(timeout_ns));
  // The runtime waits in slices; only the one that ends a wait counts.
  if (ready) COUNT("host_waits");
  return value;
}

}  // namespace

Signal* Signal::create(hsa_signal_value_t initial) {
  Signal* signal = new (SignalPool::instance().take()) Signal;
  signal->amd_.kind = AMD_SIGNAL_KIND_USER;
  signal->amd_.value = initial;
  created_.fetch_add(1);
  return signal;
}

void Signal::destroy(Signal* signal) { SignalPool::instance().give_back(signal); }

void Signal::complete(uint64_t start_ns, uint64_t end_ns) {
  timestamp(amd_.start_ts).store(start_ns, std::memory_order_relaxed);
  timestamp(amd_.end_ts).store(end_ns, std::memory_order_relaxed);
  update([](auto value) { return value.fetch_sub(1); });
}

bool condition_holds(hsa_signal_condition_t condition, hsa_signal_value_t value,
                     hsa_signal_value_t operand) {
  switch (condition) {
    case HSA_SIGNAL_CONDITION_EQ:
      return value == operand;
    case HSA_SIGNAL_CONDITION_NE:
      return value != operand;
    case HSA_SIGNAL_CONDITION_LT:
      return value < operand;
    case HSA_SIGNAL_CONDITION_GTE:
      return value >= operand;
  }
  return false;
}

}  // namespace softagent

using softagent::Signal;

hsa_status_t hsa_signal_create(hsa_signal_value_t initial_value, uint32_t, const hsa_agent_t*,
                               hsa_signal_t* signal) {
  SOFTAGENT_CALL();
  if (!signal) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  *signal = Signal::create(initial_value)->handle();
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_signal_create(hsa_signal_value_t initial_value, uint32_t, const hsa_agent_t*,
                                   uint64_t, hsa_signal_t* signal) {
  SOFTAGENT_CALL();
  if (!signal) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  *signal = Signal::create(initial_value)->handle();
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_signal_destroy(hsa_signal_t signal) {
  SOFTAGENT_CALL();
  if (signal.handle == 0) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  Signal::destroy(Signal::from(signal));
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_signal_value_pointer(hsa_signal_t signal,
                                          volatile hsa_signal_value_t** value_ptr) {
  SOFTAGENT_CALL();
  if (signal.handle == 0 || !value_ptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  *value_ptr = Signal::from(signal)->value_pointer();
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_signal_async_handler(hsa_signal_t signal, hsa_signal_condition_t cond,
                                          hsa_signal_value_t value, hsa_amd_signal_handler handler,
                                          void* arg) {
  SOFTAGENT_CALL();
  if (signal.handle == 0 || !handler) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  softagent::AsyncHandlers::instance().add({Signal::from(signal), cond, value, handler, arg});
  return HSA_STATUS_SUCCESS;
}

// Everything below is sequentially consistent, whatever order the name asks for.
#define SIGNAL_WAIT(order)                                                                     \
  hsa_signal_value_t hsa_signal_wait_##order(                                                  \
      hsa_signal_t signal, hsa_signal_condition_t condition, hsa_signal_value_t compare_value, \
      uint64_t timeout_hint, hsa_wait_state_t) {                                               \
    SOFTAGENT_CALL();                                                                          \
    return softagent::wait_for_signal(signal, condition, compare_value, timeout_hint);         \
  }
SIGNAL_WAIT(scacquire)
SIGNAL_WAIT(acquire)
SIGNAL_WAIT(relaxed)

#define SIGNAL_LOAD(order)                                          \
  hsa_signal_value_t hsa_signal_load_##order(hsa_signal_t signal) { \
    SOFTAGENT_CALL();                                               \
    return Signal::from(signal)->load();                            \
  }
SIGNAL_LOAD(scacquire)
SIGNAL_LOAD(acquire)
SIGNAL_LOAD(relaxed)

#define SIGNAL_SILENT_STORE(order)                                                      \
  void hsa_signal_silent_store_##order(hsa_signal_t signal, hsa_signal_value_t value) { \
    SOFTAGENT_CALL();                                                                   \
    Signal::from(signal)->store_silently(value);                                        \
  }
SIGNAL_SILENT_STORE(relaxed)
SIGNAL_SILENT_STORE(screlease)

#define SIGNAL_STORE(order)                                                      \
  void hsa_signal_store_##order(hsa_signal_t signal, hsa_signal_value_t value) { \
    SOFTAGENT_CALL();                                                            \
    Signal::from(signal)->update([=](auto current) { current.store(value); });   \
  }
SIGNAL_STORE(relaxed)
SIGNAL_STORE(release)
SIGNAL_STORE(screlease)

#define SIGNAL_MODIFY(operation, method, order)                                          \
  void hsa_signal_##operation##_##order(hsa_signal_t signal, hsa_signal_value_t value) { \
    SOFTAGENT_CALL();                                                                    \
    Signal::from(signal)->update([=](auto current) { current.method(value); });          \
  }
#define SIGNAL_EXCHANGE(order)                                                                    \
  hsa_signal_value_t hsa_signal_exchange_##order(hsa_signal_t signal, hsa_signal_value_t value) { \
    SOFTAGENT_CALL();                                                                             \
    return Signal::from(signal)->update([=](auto current) { return current.exchange(value); });   \
  }
#define SIGNAL_CAS(order)                                                                     \
  hsa_signal_value_t hsa_signal_cas_##order(hsa_signal_t signal, hsa_signal_value_t expected, \
                                            hsa_signal_value_t value) {                       \
    SOFTAGENT_CALL();                                                                         \
    return Signal::from(signal)->update([=](auto current) {                                   \
      hsa_signal_value_t seen = expected;                                                     \
      current.compare_exchange_strong(seen, value);                                           \
      return seen;                                                                            \
    });                                                                                       \
  }
#define SIGNAL_ALL_MODIFICATIONS(order)     \
  SIGNAL_MODIFY(add, fetch_add, order)      \
  SIGNAL_MODIFY(subtract, fetch_sub, order) \
  SIGNAL_MODIFY(and, fetch_and, order)      \
  SIGNAL_MODIFY(or, fetch_or, order)        \
  SIGNAL_MODIFY(xor, fetch_xor, order)      \
  SIGNAL_EXCHANGE(order)                    \
  SIGNAL_CAS(order)
SIGNAL_ALL_MODIFICATIONS(relaxed)
SIGNAL_ALL_MODIFICATIONS(acquire)
SIGNAL_ALL_MODIFICATIONS(scacquire)
SIGNAL_ALL_MODIFICATIONS(release)
SIGNAL_ALL_MODIFICATIONS(screlease)
SIGNAL_ALL_MODIFICATIONS(acq_rel)
SIGNAL_ALL_MODIFICATIONS(scacq_screl)
