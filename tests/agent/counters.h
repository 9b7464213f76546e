// Cheap call counters and the call trace.
#pragma once

#include <atomic>
#include <cstdint>

namespace softagent {

// Static storage only: a counter enters the list of counters at its first hit.
class Counter {
 public:
  constexpr explicit Counter(const char* name) : name_(name) {}
  Counter(const Counter&) = delete;
  Counter& operator=(const Counter&) = delete;

  void hit() {
    count_.fetch_add(1, std::memory_order_relaxed);
    if (!listed_.load(std::memory_order_relaxed)) enlist();
  }

  static uint64_t total(const char* name);
  static void reset_all();

 private:
  void enlist();

  const char* name_;
  std::atomic<uint64_t> count_{0};
  std::atomic<bool> listed_{false};
  Counter* next_ = nullptr;
};

bool tracing();
__attribute__((format(printf, 1, 2))) void trace(const char* format, ...);

}  // namespace softagent

// First statement of every HSA function.
#define SOFTAGENT_CALL()                                        \
  do {                                                          \
    static constinit softagent::Counter call_counter{__func__}; \
    call_counter.hit();                                         \
    if (softagent::tracing()) softagent::trace("%s", __func__); \
  } while (false)

// The same with the arguments worth a look: SOFTAGENT_CALL_WITH("size=%zu", size).
#define SOFTAGENT_CALL_WITH(format, ...)                                             \
  do {                                                                               \
    static constinit softagent::Counter call_counter{__func__};                      \
    call_counter.hit();                                                              \
    if (softagent::tracing()) softagent::trace("%s " format, __func__, __VA_ARGS__); \
  } while (false)

// Anything else that is counted.
#define COUNT(name)                                          \
  do {                                                       \
    static constinit softagent::Counter event_counter{name}; \
    event_counter.hit();                                     \
  } while (false)
