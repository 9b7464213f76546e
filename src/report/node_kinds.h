#pragma once

#include <cstdint>

#include "report/model.h"

namespace hipgraft::report {

struct NodeKind {
  const char* key;    // in JSON
  const char* label;  // in text, as HIP spells it
  std::uint64_t NodeCounts::*count;
};

inline constexpr NodeKind kNodeKinds[] = {
    {"kernel", "kernel", &NodeCounts::kernel},
    {"memcpy", "memcpy", &NodeCounts::memcpy},
    {"memset", "memset", &NodeCounts::memset},
    {"host", "host", &NodeCounts::host},
    {"child_graph", "childGraph", &NodeCounts::child_graph},
    {"empty", "empty", &NodeCounts::empty},
    {"event_wait", "eventWait", &NodeCounts::event_wait},
    {"event_record", "eventRecord", &NodeCounts::event_record},
    {"mem_alloc", "memAlloc", &NodeCounts::mem_alloc},
    {"mem_free", "memFree", &NodeCounts::mem_free},
    {"other", "other", &NodeCounts::other},
};

}  // namespace hipgraft::report
