// Kernels: what the loader knows of them, and the CPU functions that stand for them.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "softagent.h"

namespace softagent {

// What a twin that has to wait looks at: its queue may be destroyed meanwhile.
using StopFlag = std::atomic<bool>;

// The hardware's view of a kernel, at the address of its symbol NAME.kd.
struct KernelDescriptor {
  uint32_t group_segment_size;
  uint32_t private_segment_size;
  uint32_t kernarg_size;
  uint8_t rest[52];
};
static_assert(sizeof(KernelDescriptor) == 64);

class Kernel {
 public:
  Kernel(std::string name, const KernelDescriptor* descriptor);

  const std::string& name() const { return name_; }
  const KernelDescriptor& descriptor() const { return *descriptor_; }
  // Whether it may wait for another kernel. Of twins that is not known: they must not wait for one
  // of their own queue.
  bool waits() const { return waits_; }
  void run(void* kernarg, const uint32_t grid[3], const uint16_t block[3], const StopFlag& stop);

 private:
  using Builtin = void (*)(const Kernel& kernel, const uint8_t* kernarg, const StopFlag& stop);
  friend struct BuiltinRow;

  static Builtin find_builtin(const std::string& name);

  const std::string name_;
  const KernelDescriptor* const descriptor_;
  const uint32_t duration_us_;
  const Builtin builtin_;
  const bool waits_;
  const softagent_twin_t twin_;
};

// The kernel behind a dispatch packet's kernel_object; null if there is none.
Kernel* find_kernel(uint64_t kernel_object);

}  // namespace softagent
