// The simulator step as data: an ordered list of operations on buffers, with the stream that each
// belongs to. Both the HIP program and its CPU reference walk over the same list; on one stream,
// issue order is a valid order of the forked version too, so all variants give the same values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "step_kernels.h"

namespace sim {

enum class OpKind {
  kAlloc,      // target, on stream
  kFree,       // target, on stream
  kFill,       // target := the byte `salt`
  kGather,     // target by source
  kCouple,     // target by source
  kRelax,      // target
  kAdvect,     // target by source
  kIntegrate,  // target by source
  kFork,       // streams 1 and 2 wait for stream 0
  kJoin,       // stream 0 waits for streams 1 and 2
};

inline constexpr std::size_t kStreams = 3;

struct Op {
  OpKind kind;
  std::size_t stream = 0;
  std::size_t target = 0;
  std::size_t source = 0;
  std::uint32_t salt = 0;
};

/// The argument of an advect operation.
Stencil stencil_of(const Op& op);

struct Plan {
  std::vector<std::uint32_t> counts;  // elements of each buffer: first the fields, then temporaries
  std::size_t fields = 0;             // buffers that live from step to step
  std::vector<Op> ops;

  [[nodiscard]] std::size_t count(OpKind kind) const;
  [[nodiscard]] std::size_t kernels() const;
};

/// 24 temporaries, 24 fills and 210 kernels; `elements` is the size of a field.
Plan make_plan(std::uint32_t elements);

/// What each element of a field starts as.
std::uint32_t initial_value(std::size_t field, std::uint32_t index);

}  // namespace sim
