// The arena's plans (arena/plan.h) by the place in the program that captures.
//
// One place may capture several programs in turn, as a framework's wrapper of hipStreamBeginCapture
// does: it keeps its last few plans, and a capture takes the latest that begins as it does. All
// with the lock held.
#pragma once

#include "arena/plan.h"
#include "capture/state.h"

namespace hipgraft::capture {

// For a capture begun at `caller` whose first request on the device is of `bytes`; may be null.
arena::PlanRef plan_for(const void* caller, int device, std::uint64_t bytes);
void keep_plan(const void* caller, int device, arena::PlanRef plan);

// Bytes that the next capture begun there will probably want in one piece; 0: nothing is known.
std::uint64_t expected_bytes(const void* caller, int device);

}  // namespace hipgraft::capture
