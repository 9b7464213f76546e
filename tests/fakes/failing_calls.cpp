// A preload library that lets one of hipgraft's own calls fail, the k-th after
// failing_calls_arm(k): it returns hipErrorOutOfMemory and never reaches the runtime. All other
// calls do, also those that the program and the runtime make. Preload it behind hipgraft.
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

namespace {

// These only look, and are never short of anything.
constexpr std::array<std::string_view, 6> kNeverFail = {
    "hipGetLastError",  "hipPeekAtLastError",    "hipGetErrorName",
    "hipKernelNameRef", "hipKernelNameRefByPtr", "hipThreadExchangeStreamCaptureMode"};

std::atomic<std::int64_t> calls_left{0};  // until one fails; 0 or less: none will
std::atomic<const char*> failed{nullptr};

bool from_hipgraft(const void* caller) {
  Dl_info info;
  return dladdr(caller, &info) != 0 &&
         std::string_view(info.dli_fname).find("libhipgraft") != std::string_view::npos;
}

bool can_fail(std::string_view name) {
  return std::find(kNeverFail.begin(), kNeverFail.end(), name) == kNeverFail.end();
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) void failing_calls_arm(std::int64_t call) {
  failed = nullptr;
  calls_left = call;
}

// The function that has failed since; null if none has.
__attribute__((visibility("default"))) const char* failing_calls_failed() { return failed; }

// Where a call of the functions below goes on; null: it fails.
__attribute__((used, visibility("hidden"))) void* failing_calls_target(const char* name,
                                                                       const void* caller) {
  if (calls_left > 0 && can_fail(name) && from_hipgraft(caller) && --calls_left == 0) {
    failed = name;
    return nullptr;
  }
  return dlsym(RTLD_NEXT, name);
}

}  // extern "C"

// Each function of the table under its own name, whatever its parameters: saves the registers that
// hold them, asks for the target and jumps there.
#define HIPGRAFT_INTERCEPT(name, result, parameters)                \
  __asm__(                                                          \
      ".section .rodata\n"                                          \
      "failing_calls_name_" #name ": .asciz \"" #name               \
      "\"\n"                                                        \
      ".text\n.globl " #name "\n.type " #name ", @function\n" #name \
      ":\n"                                                         \
      "  push %rdi\n  push %rsi\n  push %rdx\n"                     \
      "  push %rcx\n  push %r8\n  push %r9\n"                       \
      "  mov 48(%rsp), %rsi\n  sub $8, %rsp\n"                      \
      "  lea failing_calls_name_" #name                             \
      "(%rip), %rdi\n"                                              \
      "  call failing_calls_target\n  add $8, %rsp\n"               \
      "  pop %r9\n  pop %r8\n  pop %rcx\n"                          \
      "  pop %rdx\n  pop %rsi\n  pop %rdi\n"                        \
      "  test %rax, %rax\n  jz 1f\n  jmp *%rax\n"                   \
      "1:\n  mov $2, %eax\n  ret\n"                                 \
      ".size " #name ", . - " #name "\n");
#define HIPGRAFT_CALL HIPGRAFT_INTERCEPT
#include "abi/functions.def"
