#include "counters.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "agent.h"
#include "options.h"
#include "softagent.h"

namespace softagent {
namespace {

std::atomic<Counter*> all_counters{nullptr};

FILE* open_trace() {
  const std::string& path = options().trace;
  if (path.empty()) return nullptr;
  if (path == "-") return stderr;
  // Appending, so that a child process does not wipe out its parent's lines.
  FILE* file = std::fopen(path.c_str(), "ae");
  if (!file) {
    std::fprintf(stderr, "softagent: SOFTAGENT_TRACE: cannot write %s: %s\n", path.c_str(),
                 std::strerror(errno));
    return nullptr;
  }
  std::setvbuf(file, nullptr, _IOLBF, 1 << 16);
  return file;
}

FILE* trace_file() {
  static FILE* const file = open_trace();
  return file;
}

}  // namespace

void Counter::enlist() {
  if (listed_.exchange(true)) return;
  next_ = all_counters.load();
  while (!all_counters.compare_exchange_weak(next_, this)) {
  }
}

// One name can have several counters: a function template's, or one event counted in two places.
uint64_t Counter::total(const char* name) {
  uint64_t sum = 0;
  for (const Counter* counter = all_counters.load(); counter; counter = counter->next_) {
    if (std::strcmp(counter->name_, name) != 0) continue;
    sum += counter->count_.load(std::memory_order_relaxed);
  }
  return sum;
}

void Counter::reset_all() {
  for (Counter* counter = all_counters.load(); counter; counter = counter->next_) {
    counter->count_.store(0, std::memory_order_relaxed);
  }
}

bool tracing() { return trace_file() != nullptr; }

void trace(const char* format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  std::fprintf(trace_file(), "%llu %ld %s\n", static_cast<unsigned long long>(now_ns()),
               syscall(SYS_gettid), text);
}

}  // namespace softagent

uint64_t softagent_count(const char* name) { return name ? softagent::Counter::total(name) : 0; }

void softagent_reset_counts(void) { softagent::Counter::reset_all(); }

uint64_t softagent_device_bytes(void) { return softagent::device_bytes_in_use(); }

uint64_t softagent_device_bytes_of(int gpu) {
  return gpu < 0 ? 0 : softagent::device_bytes_in_use(static_cast<uint32_t>(gpu));
}
