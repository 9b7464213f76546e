// Device code and twins of the scenarios; see apps/kernels.h for what compiles this file.
#include "scenario_kernels.h"

#if defined(APPS_HOST_TWINS)
#include "twin.h"
#endif

namespace scenario {
namespace {

constexpr std::uint32_t kTaken = 0x7a4e17;

APPS_DEVICE std::uint32_t tag_bytes(const Use& use, std::uint64_t at) {
  const std::uint64_t left = use.size - at;
  return left < sizeof use.tag ? static_cast<std::uint32_t>(left) : sizeof use.tag;
}

APPS_DEVICE void write_tag(const Use& use, std::uint64_t at) {
  for (std::uint32_t i = 0; i < tag_bytes(use, at); ++i) {
    use.bytes[at + i] = static_cast<unsigned char>(use.tag >> (8 * i));
  }
}

APPS_DEVICE std::uint32_t read_tag(const Use& use, std::uint64_t at) {
  std::uint32_t tag = 0;
  for (std::uint32_t i = 0; i < tag_bytes(use, at); ++i) {
    tag |= static_cast<std::uint32_t>(use.bytes[at + i]) << (8 * i);
  }
  return tag;
}

APPS_DEVICE void check_tag(const Use& use, std::uint64_t at, std::uint32_t& found) {
  const std::uint32_t bits = 8 * tag_bytes(use, at);
  const std::uint32_t expected = bits == 32 ? use.tag : use.tag & ((1U << bits) - 1);
  const std::uint32_t tag = read_tag(use, at);
  if (tag != expected) found = kWrongTag | tag;
}

}  // namespace

// One work-item does the counting, so that no atomics are needed.

APPS_KERNEL void enter(std::uint32_t* cells, std::uint32_t count, std::uint32_t* faults) {
  if (apps::global_index() != 0) return;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (cells[i] == kTaken) ++*faults;
    cells[i] = kTaken;
  }
}

APPS_KERNEL void leave(std::uint32_t* cells, std::uint32_t count, std::uint32_t* faults) {
  if (apps::global_index() != 0) return;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (cells[i] != kTaken) ++*faults;
    cells[i] = 0;
  }
}

APPS_KERNEL void fill(std::uint32_t* cells, std::uint32_t count, std::uint32_t value) {
  const std::uint32_t i = apps::global_index();
  if (i < count) cells[i] = value + i;
}

APPS_KERNEL void sum(std::uint32_t* total, const std::uint32_t* cells, std::uint32_t count) {
  if (apps::global_index() != 0) return;
  for (std::uint32_t i = 0; i < count; ++i) *total += cells[i];
}

APPS_KERNEL void touch(const Use* uses, std::uint32_t* found, std::uint32_t count) {
  if (apps::global_index() != 0) return;
  for (std::uint32_t i = 0; i < count; ++i) {
    const Use& use = uses[i];
    for (std::uint64_t at = 0; at < use.size; at += kTagUnit) {
      if (use.is_first != 0) {
        write_tag(use, at);
      } else {
        check_tag(use, at, found[i]);
      }
    }
  }
}

}  // namespace scenario

#if defined(APPS_HOST_TWINS)
#define SCENARIO_TWIN(symbol, name) APPS_TWIN(symbol, scenario::name)
SCENARIO_KERNELS(SCENARIO_TWIN)
#endif
