// Whether this thread is inside hipgraft or the runtime. The runtime calls some of its own exported
// functions through the PLT (hipMemGetInfo under its pool locks, hipModuleLaunchKernel,
// hipMemcpyAsync, ...; all of 5.7, 6.4 and 7.2): such calls, and ours, are not the program's.
#pragma once

namespace hipgraft::runtime {

inline constinit thread_local int depth [[gnu::tls_model("initial-exec")]] = 0;

class Inside {
 public:
  Inside() { ++depth; }
  ~Inside() { --depth; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

  bool outermost() const { return depth == 1; }
};

}  // namespace hipgraft::runtime
