// The genuine runtime's functions. Found at the first use, never at load: a process that does not
// touch HIP does not look for it. Thread-safe, also from static constructors.
#pragma once

#include "abi/functions.h"

namespace hipgraft::runtime {

struct Functions {
#define HIPGRAFT_MEMBER(name, result, parameters) abi::name##_fn* name = nullptr;
#define HIPGRAFT_INTERCEPT HIPGRAFT_MEMBER
#define HIPGRAFT_CALL HIPGRAFT_MEMBER
#include "abi/functions.def"
#undef HIPGRAFT_CALL
#undef HIPGRAFT_INTERCEPT
#undef HIPGRAFT_MEMBER
};

// Null members: this runtime lacks the function. All null: no runtime was found, which is logged
// once.
const Functions& real();

// Path of the library that the functions come from; empty when none was found.
const char* library_path();

// Where to look instead of behind us in the link order; must be set before the first use.
void use_library(const char* path);

}  // namespace hipgraft::runtime
