// What a program captures, as far as the arena sees it: kernels, allocations, frees and waits on
// streams. Read from a file of tests/data or made at random.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "arena/chunks.h"
#include "dag/mirror.h"

namespace hipgraft::bench {

struct Event {
  enum class Kind { kernel, allocate, free, wait };
  Kind kind = Kind::kernel;
  std::size_t stream = 0;
  std::size_t other = 0;   // allocate, free: the block; wait: the stream that is waited for
  arena::Bytes bytes = 0;  // allocate
};
using Trace = std::vector<Event>;

// Exits with a message when the file cannot be read.
Trace read_trace(const std::string& path);

enum class Sizes { log_normal, classes, multiples };

struct RandomShape {
  const char* name = "";
  std::size_t streams = 1;
  Sizes sizes = Sizes::log_normal;
  double waits = 0;  // a step's chance that one stream waits for another
};

// Each stream works on its own blocks; some are freed by another stream, which waits first.
Trace random_trace(const RandomShape& shape, std::uint32_t seed, std::size_t allocations);

// What reaches the region: allocations and frees with the order that the capture knows.
struct Call {
  bool frees = false;
  std::size_t stream = 0;
  std::size_t block = 0;
  arena::Bytes bytes = 0;
  dag::Frontier frontier;  // allocation
  dag::Marks marks;        // free
};
// Blocks are renumbered in the order of their allocations.
std::vector<Call> calls_of(const Trace& trace);

}  // namespace hipgraft::bench
