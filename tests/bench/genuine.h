// The runtime's own functions, for comparison in a process that hipgraft is preloaded into.
#pragma once

#include <string_view>

#include "runtime/loaded_objects.h"

namespace bench {

// The function in the runtime itself, whoever has put himself before it; null if there is none.
template <class Function>
Function* genuine(const char* name, Function*) {
  for (const auto& object : hipgraft::runtime::loaded_objects()) {
    if (std::string_view(object.file_name()).starts_with("libamdhip64")) {
      return reinterpret_cast<Function*>(object.defined(name));
    }
  }
  return nullptr;
}

}  // namespace bench
