// CPU stand-ins for kernels: twins that tests bring along, and the runtime's own blit kernels.
#include <dlfcn.h>
#include <time.h>

#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

#include "agent.h"
#include "kernels.h"
#include "options.h"

namespace softagent {
namespace {

template <class Value>
Value argument(const uint8_t* kernarg, size_t offset) {
  Value value;
  std::memcpy(&value, kernarg + offset, sizeof value);
  return value;
}

uint8_t* pointer(const uint8_t* kernarg, size_t offset) {
  return argument<uint8_t*>(kernarg, offset);
}

// Argument lists are told apart by the size of the explicit arguments: the hidden ones after them
// take nothing, 56 or 256 bytes.
bool explicit_size_is(const Kernel& kernel, size_t size) {
  const size_t hidden = kernel.descriptor().kernarg_size - size;
  return hidden == 0 || hidden == 56 || hidden == 256;
}

void repeat(uint8_t* to, const uint8_t* end, const uint8_t* pattern, size_t pattern_bytes) {
  for (; to < end; to += pattern_bytes) {
    std::memcpy(to, pattern, std::min<size_t>(pattern_bytes, static_cast<size_t>(end - to)));
  }
}

// Runtime 5.x: one typed pointer of four is set; counts and offset are in elements of its type.
void fill_buffer_typed(const uint8_t* kernarg) {
  for (size_t type = 0; type < 4; ++type) {
    uint8_t* buffer = pointer(kernarg, 8 * type);
    if (!buffer) continue;
    const size_t element = size_t{1} << type;
    const size_t pattern_bytes = argument<uint32_t>(kernarg, 40) * element;
    uint8_t* const begin = buffer + argument<uint64_t>(kernarg, 48) * element;
    const uint8_t* const end = begin + argument<uint64_t>(kernarg, 56) * pattern_bytes;
    repeat(begin, end, pointer(kernarg, 32), pattern_bytes);
  }
}

void fill_buffer(const Kernel& kernel, const uint8_t* kernarg, const StopFlag&) {
  if (explicit_size_is(kernel, 64)) return fill_buffer_typed(kernarg);
  const size_t pattern_bytes =
      size_t{argument<uint32_t>(kernarg, 16)} * argument<uint32_t>(kernarg, 20);
  repeat(pointer(kernarg, 0), pointer(kernarg, 24), pointer(kernarg, 8), pattern_bytes);
}

void fill_buffer_2d(const Kernel&, const uint8_t* kernarg, const StopFlag&) {
  for (size_t type = 0; type < 4; ++type) {
    uint8_t* buffer = pointer(kernarg, 8 * type);
    if (!buffer) continue;
    const size_t element = size_t{1} << type;
    const size_t pattern_bytes = argument<uint32_t>(kernarg, 40) * element;
    const uint64_t offset = argument<uint64_t>(kernarg, 48) * element;
    const uint64_t width = argument<uint64_t>(kernarg, 56) * element;
    const uint64_t height = argument<uint64_t>(kernarg, 64);
    const uint64_t pitch = argument<uint64_t>(kernarg, 72) * element;
    for (uint64_t row = 0; row < height; ++row) {
      uint8_t* const begin = buffer + offset + row * pitch;
      repeat(begin, begin + width, pointer(kernarg, 32), pattern_bytes);
    }
  }
}

// Runtime 5.x: origins in bytes, a count of words of which the last is partly copied, its bytes.
void copy_words(const uint8_t* kernarg) {
  const uint64_t size = (argument<uint64_t>(kernarg, 32) - 1) * 4 + argument<uint32_t>(kernarg, 40);
  std::memmove(pointer(kernarg, 8) + argument<uint64_t>(kernarg, 24),
               pointer(kernarg, 0) + argument<uint64_t>(kernarg, 16), size);
}

void copy_buffer(const Kernel&, const uint8_t* kernarg, const StopFlag&) {
  // Later runtimes have the target's end where 5.x has its count; the sizes are the same.
  if (pointer(kernarg, 32) < pointer(kernarg, 8)) return copy_words(kernarg);
  std::memmove(pointer(kernarg, 8), pointer(kernarg, 0), argument<uint64_t>(kernarg, 16));
}

void copy_buffer_aligned(const Kernel&, const uint8_t* kernarg, const StopFlag&) {
  const uint64_t unit = argument<uint32_t>(kernarg, 40);
  const uint64_t from = argument<uint64_t>(kernarg, 16) * unit;
  const uint64_t to = argument<uint64_t>(kernarg, 24) * unit;
  std::memmove(pointer(kernarg, 8) + to, pointer(kernarg, 0) + from,
               argument<uint64_t>(kernarg, 32) * unit);
}

// A rectangle is {row pitch, slice pitch, start}, in units as the size's x is.
struct Rectangle {
  uint64_t row_pitch, slice_pitch, start, unused;
};

void copy_rectangle(const uint8_t* kernarg, size_t unit) {
  const auto from = argument<Rectangle>(kernarg, 32);
  const auto to = argument<Rectangle>(kernarg, 64);
  const auto width = argument<uint64_t>(kernarg, 96);
  const auto height = argument<uint64_t>(kernarg, 104);
  const auto depth = argument<uint64_t>(kernarg, 112);
  for (uint64_t z = 0; z < depth; ++z) {
    for (uint64_t y = 0; y < height; ++y) {
      const uint64_t source = from.start + y * from.row_pitch + z * from.slice_pitch;
      const uint64_t target = to.start + y * to.row_pitch + z * to.slice_pitch;
      std::memmove(pointer(kernarg, 8) + target * unit, pointer(kernarg, 0) + source * unit,
                   width * unit);
    }
  }
}

void copy_buffer_rect(const Kernel&, const uint8_t* kernarg, const StopFlag&) {
  copy_rectangle(kernarg, 1);
}

void copy_buffer_rect_aligned(const Kernel&, const uint8_t* kernarg, const StopFlag&) {
  copy_rectangle(kernarg, 4);
}

void write_value(uint32_t* word, uint64_t* doubleword, uint64_t value) {
  if (word) {
    std::atomic_ref(*word).store(static_cast<uint32_t>(value));
  } else if (doubleword) {
    std::atomic_ref(*doubleword).store(value);
  }
}

// The conditions of the HIP API; the fourth is NOR.
constexpr uint64_t wait_gte = 0, wait_eq = 1, wait_and = 2;

bool value_satisfies(uint64_t seen, uint64_t value, uint64_t flags, uint64_t mask) {
  switch (flags) {
    case wait_gte:
      return (seen & mask) >= value;
    case wait_eq:
      return (seen & mask) == value;
    case wait_and:
      return (seen & mask & value) != 0;
    default:
      return (~(seen | value) & mask) != 0;
  }
}

void wait_for_value(uint32_t* word, uint64_t* doubleword, uint64_t value, uint64_t flags,
                    uint64_t mask, const StopFlag& stop) {
  while (!stop.load()) {
    const uint64_t seen = word         ? std::atomic_ref(*word).load()
                          : doubleword ? std::atomic_ref(*doubleword).load()
                                       : value;
    if (value_satisfies(seen, value, flags, mask)) return;
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

void stream_write(const Kernel&, const uint8_t* kernarg, const StopFlag&) {
  write_value(argument<uint32_t*>(kernarg, 0), argument<uint64_t*>(kernarg, 8),
              argument<uint64_t>(kernarg, 16));
}

void stream_wait(const Kernel&, const uint8_t* kernarg, const StopFlag& stop) {
  wait_for_value(argument<uint32_t*>(kernarg, 0), argument<uint64_t*>(kernarg, 8),
                 argument<uint64_t>(kernarg, 16), argument<uint64_t>(kernarg, 24),
                 argument<uint64_t>(kernarg, 32), stop);
}

// One operation of a batch, as the HIP API lays it out.
struct MemoryOperation {
  uint32_t operation;
  uint32_t unused;
  void* address;
  uint64_t value;
  uint64_t flags;
  uint64_t rest[2];
};
static_assert(sizeof(MemoryOperation) == 48);

void memory_operation(const MemoryOperation& entry, const StopFlag& stop) {
  constexpr uint32_t wait_32 = 1, write_32 = 2, wait_64 = 4, write_64 = 5;
  const bool narrow = entry.operation == wait_32 || entry.operation == write_32;
  auto* word = narrow ? static_cast<uint32_t*>(entry.address) : nullptr;
  auto* doubleword = narrow ? nullptr : static_cast<uint64_t*>(entry.address);
  const uint64_t value = narrow ? static_cast<uint32_t>(entry.value) : entry.value;
  if (entry.operation == write_32 || entry.operation == write_64) {
    write_value(word, doubleword, value);
  } else if (entry.operation == wait_32 || entry.operation == wait_64) {
    wait_for_value(word, doubleword, value, static_cast<uint32_t>(entry.flags),
                   narrow ? UINT32_MAX : UINT64_MAX, stop);
  }
}

void memory_operations(const Kernel&, const uint8_t* kernarg, const StopFlag& stop) {
  const auto* entries = argument<const MemoryOperation*>(kernarg, 0);
  const auto entry_count = argument<uint32_t>(kernarg, 8);
  for (uint32_t i = 0; i < entry_count; ++i) memory_operation(entries[i], stop);
}

void nothing(const Kernel&, const uint8_t*, const StopFlag&) {}

// Shared objects named by SOFTAGENT_TWINS, opened at the first look-up.
const std::vector<void*>& twin_objects() {
  static const std::vector<void*>& objects = *[] {
    auto* opened = new std::vector<void*>;
    for (const std::string& path : options().twins) {
      void* object = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (object) {
        opened->push_back(object);
      } else {
        std::fprintf(stderr, "softagent: SOFTAGENT_TWINS: %s\n", dlerror());
      }
    }
    return opened;
  }();
  return objects;
}

softagent_twin_t find_twin(const std::string& kernel) {
  const std::string symbol = "twin_" + kernel;
  void* function = nullptr;
  for (void* object : twin_objects()) {
    function = dlsym(object, symbol.c_str());
    if (function) break;
  }
  if (!function) function = dlsym(RTLD_DEFAULT, symbol.c_str());
  return reinterpret_cast<softagent_twin_t>(function);
}

void sleep_until(const timespec& end) {
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, nullptr) != 0) {
  }
}

timespec monotonic_after_us(uint32_t us) {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  const long ns = time.tv_nsec + static_cast<long>(us % 1000000) * 1000;
  time.tv_sec += us / 1000000 + ns / 1000000000;
  time.tv_nsec = ns % 1000000000;
  return time;
}

}  // namespace

struct BuiltinRow {
  const char* name;
  Kernel::Builtin function;
};

Kernel::Builtin Kernel::find_builtin(const std::string& name) {
  static constexpr BuiltinRow rows[] = {
      {"__amd_rocclr_fillBufferAligned", fill_buffer},
      {"__amd_rocclr_fillBufferAligned2D", fill_buffer_2d},
      {"__amd_rocclr_copyBuffer", copy_buffer},
      {"__amd_rocclr_copyBufferAligned", copy_buffer_aligned},
      {"__amd_rocclr_copyBufferRect", copy_buffer_rect},
      {"__amd_rocclr_copyBufferRectAligned", copy_buffer_rect_aligned},
      {"__amd_rocclr_streamOpsWrite", stream_write},
      {"__amd_rocclr_streamOpsWait", stream_wait},
      {"__amd_rocclr_batchMemOp", memory_operations},
      {"__amd_rocclr_initHeap", nothing},
      {"__amd_rocclr_gwsInit", nothing},
  };
  for (const BuiltinRow& row : rows) {
    if (name == row.name) return row.function;
  }
  return nullptr;
}

Kernel::Kernel(std::string name, const KernelDescriptor* descriptor)
    : name_(std::move(name)),
      descriptor_(descriptor),
      duration_us_(kernel_duration_us(name_)),
      builtin_(find_builtin(name_)),
      waits_(builtin_ == stream_wait || builtin_ == memory_operations),
      twin_(builtin_ ? nullptr : find_twin(name_)) {}

// An artificial duration is the least time that the kernel takes.
void Kernel::run(void* kernarg, const uint32_t grid[3], const uint16_t block[3],
                 const StopFlag& stop) {
  const timespec end = duration_us_ ? monotonic_after_us(duration_us_) : timespec{};
  if (builtin_) {
    COUNT("kernels.builtin");
    builtin_(*this, static_cast<const uint8_t*>(kernarg), stop);
  } else if (twin_) {
    COUNT("kernels.twin");
    twin_(kernarg, grid, block);
  } else {
    COUNT("kernels.missing");
  }
  if (duration_us_) sleep_until(end);
}

}  // namespace softagent
