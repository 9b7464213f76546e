// The genuine runtime's functions. Found at the first use, never at load: a process that does not
// touch HIP does not look for it. Thread-safe, also from static constructors.
//
// A process may hold several copies of the runtime. hipgraft works on one, the first that is used;
// calls that belong to another are handed to that one and otherwise left alone.
#pragma once

#include <link.h>

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

// Those of the copy that hipgraft works on. Null members: this runtime lacks the function. All
// null: no runtime was found, which is logged once.
const Functions& real();

// Those of the copy that the code around `caller` is bound to. After the first call from a place
// this is one comparison.
const Functions& functions_for(const void* caller);

// Path of the library that real() comes from; empty when none was found.
const char* library_path();

// Its object; null when none was found.
const link_map* runtime_map();

// Where real() is, whatever the program loads; must be set before the first use.
void use_library(const char* path);

// The C library's dlsym, dlvsym and dlopen, or those of a library preloaded behind us.
using Dlsym = void*(void* handle, const char* symbol);
using Dlvsym = void*(void* handle, const char* symbol, const char* version);
using Dlopen = void*(const char* file, int flags);
Dlsym* genuine_dlsym();
Dlvsym* genuine_dlvsym();
Dlopen* genuine_dlopen();

}  // namespace hipgraft::runtime
