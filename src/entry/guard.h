// The first thing every wrapper does.
#pragma once

#include "capture/state.h"
#include "entry/process.h"
#include "runtime/inside.h"
#include "runtime/real.h"

namespace hipgraft::entry {

// Whether the call is the program's own and hipgraft is on. Otherwise the wrapper forwards it and
// does nothing else.
class Guard {
 public:
  bool ours() const { return inside_.outermost() && active(); }

 private:
  runtime::Inside inside_;
};

}  // namespace hipgraft::entry

// The call being intercepted, seen from its wrapper.
#define HIPGRAFT_THIS_CALL(name) \
  ::hipgraft::capture::Call { #name, __builtin_return_address(0) }

#define HIPGRAFT_EXPORT extern "C" __attribute__((visibility("default")))
