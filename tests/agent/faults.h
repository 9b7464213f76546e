// A kernel that touches memory which it may not touch ends the process, as it would on a GPU, but
// not before saying which kernel it was.
#pragma once

#include <cstdint>

#include "agent.h"
#include "kernels.h"

namespace softagent {

struct Dispatch {
  const Kernel* kernel;
  const void* kernarg;
  uint32_t grid[3];
  uint16_t block[3];
  uint64_t queue;
  const Agent* agent;
};

// To be called on each thread that runs kernels: threads of the agent block all signals, and a
// blocked fault would end the process without a word.
void let_faults_through();

// While it lives, a fault on this thread is the kernel's.
class RunningDispatch {
 public:
  explicit RunningDispatch(const Dispatch& dispatch);
  ~RunningDispatch();
  RunningDispatch(const RunningDispatch&) = delete;
  RunningDispatch& operator=(const RunningDispatch&) = delete;
};

}  // namespace softagent
