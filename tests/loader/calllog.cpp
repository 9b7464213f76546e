// A preload library that writes one line for each HIP call that reaches it: name, arguments,
// result. Preloaded behind hipgraft it shows what hipgraft passes on to the runtime.
//
// Handles and device addresses are written as ordinals (#1, #2, ... and @1, @2, ...) so that the
// logs of two runs can be compared. What a call creates always gets a new ordinal, so that it does
// not matter whether the runtime happens to reuse an address. Calls that the runtime makes to
// itself are not written. CALLLOG_FILE names the file; without it lines go to stderr.
#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_map>

namespace calllog {

// Parameter types that say how an argument is written. Each is passed in registers exactly as the
// pointer or the numbers it holds.
struct Created {  // where the call stores a new handle
  void** slot;
};
struct Handle {
  const void* value;
};
struct Retired {  // a handle that the call ends
  const void* value;
};
struct Allocated {  // where the call stores the address of new device memory
  void** slot;
};
struct Address {  // device memory, by its beginning, or host memory
  const void* value;
};
struct Freed {
  const void* value;
};
struct Hidden {  // differs from run to run: the caller's own buffers
  const void* value;
};
struct CountOut {
  std::size_t* value;
};
struct NumberOut {
  int* value;
};
struct Text {
  const char* value;
};
struct Dim3 {
  std::uint32_t x;
  std::uint32_t y;
  std::uint32_t z;
};

class Ordinals {
 public:
  explicit Ordinals(char prefix) : prefix_(prefix) {}

  std::string create(const void* key) {
    if (key == nullptr) return "null";
    ordinals_[key] = ++last_;
    return "new " + text(last_);
  }

  std::string find(const void* key) {
    if (key == nullptr) return "null";
    const auto [entry, unknown] = ordinals_.try_emplace(key, last_ + 1);
    if (unknown) ++last_;
    return text(entry->second);
  }

  std::string find_or(const void* key, const char* otherwise) const {
    if (key == nullptr) return "null";
    const auto found = ordinals_.find(key);
    return found == ordinals_.end() ? otherwise : text(found->second);
  }

  std::string forget(const void* key) {
    const std::string last_text = find(key);
    ordinals_.erase(key);
    return last_text;
  }

 private:
  [[nodiscard]] std::string text(std::uint64_t ordinal) const {
    return prefix_ + std::to_string(ordinal);
  }

  char prefix_;
  std::unordered_map<const void*, std::uint64_t> ordinals_;
  std::uint64_t last_ = 0;
};

class Log {
 public:
  // Never destroyed: programs make HIP calls until the end of their exit handlers.
  static Log& instance() {
    static Log& log = *new Log;
    return log;
  }

  std::mutex mutex;
  Ordinals handles{'#'};
  Ordinals addresses{'@'};

  void write(const std::string& line) { std::fprintf(file_, "%s\n", line.c_str()); }

 private:
  Log() {
    const char* path = std::getenv("CALLLOG_FILE");
    if (path == nullptr) return;
    file_ = std::fopen(path, "we");
    if (file_ == nullptr) {
      std::fprintf(stderr, "calllog: CALLLOG_FILE=%s cannot be written\n", path);
      std::abort();
    }
    setvbuf(file_, nullptr, _IOLBF, BUFSIZ);
  }

  std::FILE* file_ = stderr;
};

// The text of an argument before the call.
std::string before(Log& log, Handle argument) { return log.handles.find(argument.value); }
std::string before(Log& log, Retired argument) { return log.handles.forget(argument.value); }
std::string before(Log& log, Freed argument) { return log.addresses.forget(argument.value); }
std::string before(Log& log, Address argument) {
  return log.addresses.find_or(argument.value, "host");
}
std::string before(Log&, Hidden argument) { return argument.value == nullptr ? "null" : "..."; }
std::string before(Log&, Text argument) { return '"' + std::string(argument.value) + '"'; }
std::string before(Log&, Dim3 argument) {
  return std::to_string(argument.x) + 'x' + std::to_string(argument.y) + 'x' +
         std::to_string(argument.z);
}
template <typename Number>
requires std::is_arithmetic_v<Number> std::string before(Log&, Number argument) {
  return std::to_string(argument);
}
std::string before(Log&, Created) { return {}; }
std::string before(Log&, Allocated) { return {}; }
std::string before(Log&, CountOut) { return {}; }
std::string before(Log&, NumberOut) { return {}; }

// What a successful call adds to it.
std::string after(Log& log, Created argument) { return log.handles.create(*argument.slot); }
std::string after(Log& log, Allocated argument) { return log.addresses.create(*argument.slot); }
std::string after(Log&, CountOut argument) { return "-> " + std::to_string(*argument.value); }
std::string after(Log&, NumberOut argument) { return "-> " + std::to_string(*argument.value); }
template <typename Input>
std::string after(Log&, Input) {
  return {};
}

bool succeeded(int result) { return result == 0; }
bool succeeded(void** result) { return result != nullptr; }

std::string result_text(Log&, int result) { return std::to_string(result); }
std::string result_text(Log& log, void** result) { return log.handles.create(result); }

thread_local int depth = 0;

struct Nested {
  Nested() { ++depth; }
  ~Nested() { --depth; }
};

template <typename Function, typename... Arguments>
auto call_inside(const Function& real, const std::tuple<Arguments...>& arguments) {
  const Nested nested;
  return std::apply(real, arguments);
}

template <typename Function, typename... Arguments>
auto call(const char* name, const Function& real, const std::tuple<Arguments...>& arguments) {
  if (depth > 0) return std::apply(real, arguments);
  Log& log = Log::instance();
  std::string texts[sizeof...(Arguments)];
  const auto each = [&](auto add) {
    std::apply(
        [&](auto... argument) {
          std::size_t i = 0;
          (add(texts[i++], argument), ...);
        },
        arguments);
  };
  {
    const std::lock_guard lock(log.mutex);
    each([&](std::string& text, auto argument) { text = before(log, argument); });
  }
  const auto result = call_inside(real, arguments);
  const std::lock_guard lock(log.mutex);
  if (succeeded(result)) {
    each([&](std::string& text, auto argument) { text += after(log, argument); });
  }
  std::string line = name;
  for (std::size_t i = 0; i < sizeof...(Arguments); ++i) line += (i == 0 ? "(" : ", ") + texts[i];
  log.write(line + ") = " + result_text(log, result));
  return result;
}

void* find_next(const char* name) {
  void* found = dlsym(RTLD_NEXT, name);
  if (found != nullptr) return found;
  std::fprintf(stderr, "calllog: no library behind this one has %s\n", name);
  std::abort();
}

}  // namespace calllog

#define LOGGED(Result, name, parameters, arguments)                             \
  extern "C" __attribute__((visibility("default"))) Result name parameters {    \
    using Real = Result(*) parameters;                                          \
    static const auto real = reinterpret_cast<Real>(calllog::find_next(#name)); \
    return calllog::call(#name, real, std::make_tuple arguments);               \
  }

#define LOGGED_VOID(name, parameters, arguments)                                \
  extern "C" __attribute__((visibility("default"))) void name parameters {      \
    using Real = void(*) parameters;                                            \
    static const auto real = reinterpret_cast<Real>(calllog::find_next(#name)); \
    const auto zero = [](auto... values) { return real(values...), 0; };        \
    calllog::call(#name, zero, std::make_tuple arguments);                      \
  }

using calllog::Address;
using calllog::Allocated;
using calllog::CountOut;
using calllog::Created;
using calllog::Dim3;
using calllog::Freed;
using calllog::Handle;
using calllog::Hidden;
using calllog::NumberOut;
using calllog::Retired;
using calllog::Text;
using std::size_t;

// One row a function. Errors and enumerations are passed as int.
// clang-format off
LOGGED(int, hipMalloc, (Allocated address, size_t bytes), (address, bytes))
LOGGED(int, hipFree, (Freed address), (address))
LOGGED(int, hipMallocAsync, (Allocated address, size_t bytes, Handle stream), (address, bytes, stream))
LOGGED(int, hipFreeAsync, (Freed address, Handle stream), (address, stream))
LOGGED(int, hipMemcpy, (Address to, Address from, size_t bytes, int kind), (to, from, bytes, kind))
LOGGED(int, hipMemsetAsync, (Address to, int value, size_t bytes, Handle stream), (to, value, bytes, stream))
LOGGED(int, hipLaunchKernel, (Handle kernel, Dim3 grid, Dim3 block, Hidden arguments, size_t shared, Handle stream), (kernel, grid, block, arguments, shared, stream))
LOGGED(int, hipModuleLaunchKernel, (Handle kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared, Handle stream, Hidden arguments, Hidden extra), (kernel, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, arguments, extra))
LOGGED(int, hipModuleLoadData, (Created module, Hidden image), (module, image))
LOGGED(int, hipModuleGetFunction, (Created function, Handle module, Text name), (function, module, name))
LOGGED(int, hipModuleUnload, (Retired module), (module))
LOGGED(int, hipStreamCreateWithFlags, (Created stream, unsigned flags), (stream, flags))
LOGGED(int, hipStreamDestroy, (Retired stream), (stream))
LOGGED(int, hipStreamSynchronize, (Handle stream), (stream))
LOGGED(int, hipStreamWaitEvent, (Handle stream, Handle event, unsigned flags), (stream, event, flags))
LOGGED(int, hipStreamBeginCapture, (Handle stream, int mode), (stream, mode))
LOGGED(int, hipStreamEndCapture, (Handle stream, Created graph), (stream, graph))
LOGGED(int, hipStreamIsCapturing, (Handle stream, NumberOut status), (stream, status))
LOGGED(int, hipEventCreateWithFlags, (Created event, unsigned flags), (event, flags))
LOGGED(int, hipEventRecord, (Handle event, Handle stream), (event, stream))
LOGGED(int, hipEventDestroy, (Retired event), (event))
LOGGED(int, hipGraphGetNodes, (Handle graph, Hidden nodes, CountOut count), (graph, nodes, count))
LOGGED(int, hipGraphGetEdges, (Handle graph, Hidden from, Hidden to, CountOut count), (graph, from, to, count))
LOGGED(int, hipGraphNodeGetType, (Handle node, NumberOut type), (node, type))
LOGGED(int, hipGraphInstantiate, (Created exec, Handle graph, Hidden error_node, Hidden log, size_t log_size), (exec, graph, error_node, log, log_size))
LOGGED(int, hipGraphLaunch, (Handle exec, Handle stream), (exec, stream))
LOGGED(int, hipGraphExecDestroy, (Retired exec), (exec))
LOGGED(int, hipGraphDestroy, (Retired graph), (graph))
LOGGED(void**, __hipRegisterFatBinary, (Hidden wrapper), (wrapper))
LOGGED_VOID(__hipUnregisterFatBinary, (Retired modules), (modules))
LOGGED_VOID(__hipRegisterFunction, (Handle modules, Handle handle, Hidden device_function, Text device_name, unsigned thread_limit, Hidden thread_id, Hidden block_id, Hidden block_size, Hidden grid_size, Hidden shared_size), (modules, handle, device_function, device_name, thread_limit, thread_id, block_id, block_size, grid_size, shared_size))
// clang-format on
