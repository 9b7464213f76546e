// The first thing every wrapper does.
#pragma once

#include "capture/state.h"
#include "entry/process.h"
#include "runtime/inside.h"
#include "runtime/real.h"

namespace hipgraft::entry {

class Guard {
 public:
  explicit Guard(const void* caller)
      : active_(active(caller)), functions_(runtime::functions_for(caller)) {}

  // The function that the call would have reached without us.
  const runtime::Functions& real() const { return functions_; }

  // Whether hipgraft is on for the runtime that the call is meant for.
  bool watched() const { return active_ && &functions_ == &runtime::real(); }
  // Whether, besides, the call is the program's own. Otherwise the wrapper forwards it and does
  // nothing else.
  bool ours() const { return inside_.outermost() && watched(); }

 private:
  runtime::Inside inside_;
  bool active_;
  const runtime::Functions& functions_;
};

}  // namespace hipgraft::entry

#define HIPGRAFT_GUARD const ::hipgraft::entry::Guard guard(__builtin_return_address(0))

// The call being intercepted, seen from its wrapper.
#define HIPGRAFT_THIS_CALL(name) \
  ::hipgraft::capture::Call { #name, __builtin_return_address(0) }

#define HIPGRAFT_EXPORT extern "C" __attribute__((visibility("default")))
