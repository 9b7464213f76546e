// The fewest bytes that any placement of a trace's blocks could need.
#pragma once

#include <vector>

#include "trace.h"

namespace hipgraft::bench {

// The greatest weight of blocks of which no two are ordered: those must all have their own bytes.
arena::Bytes lower_bound(const std::vector<Call>& calls);

}  // namespace hipgraft::bench
