// Ways to ask for a HIP function by name: each answers with our wrapper where it would have answered
// with the genuine function of the runtime that hipgraft works on, and with what it would have
// answered everywhere else.
#pragma once

namespace hipgraft::entry {

// Our wrapper of a genuine function; `function` itself if it is none that we intercept.
void* wrapper_of(void* function);

}  // namespace hipgraft::entry
