#include "entry/lookup.h"

#include <dlfcn.h>

#include <cstdint>
#include <cstring>

#include "entry/guard.h"
#include "runtime/bypass.h"
#include "runtime/real.h"

using namespace hipgraft;
using namespace hipgraft::abi;

// The wrappers, by the names that they are exported under.
#define HIPGRAFT_INTERCEPT(name, result, parameters) extern "C" result name parameters;
#define HIPGRAFT_CALL(name, result, parameters)
#include "abi/functions.def"
#undef HIPGRAFT_CALL
#undef HIPGRAFT_INTERCEPT

namespace hipgraft::entry {
namespace {

struct Row {
  const char* name;
  void* wrapper;
  void* (*genuine)();
};

const Row kRows[] = {
#define HIPGRAFT_INTERCEPT(name, result, parameters)                 \
  {#name, reinterpret_cast<void*>(static_cast<name##_fn*>(&::name)), \
   [] { return reinterpret_cast<void*>(runtime::real().name); }},
#define HIPGRAFT_CALL(name, result, parameters)
#include "abi/functions.def"
#undef HIPGRAFT_CALL
#undef HIPGRAFT_INTERCEPT
};

bool begins_like_hip(const char* symbol) { return std::strncmp(symbol, "hip", 3) == 0; }

const Row* row_named(const char* symbol) {
  if (!begins_like_hip(symbol)) return nullptr;
  for (const Row& row : kRows) {
    if (std::strcmp(row.name, symbol) == 0) return &row;
  }
  return nullptr;
}

}  // namespace

void* wrapper_of(void* function) {
  if (function == nullptr) return nullptr;
  for (const Row& row : kRows) {
    if (row.genuine() == function) return row.wrapper;
  }
  return function;
}

// The functions that dlsym and dlvsym continue with for an intercepted name. They answer from here,
// so RTLD_DEFAULT means our own scope, where the name is ours if the runtime has it.

void* find_wrapped(void* handle, const char* symbol) {
  void* found = runtime::genuine_dlsym()(handle, symbol);
  return handle == RTLD_DEFAULT ? found : wrapper_of(found);
}

void* find_wrapped_version(void* handle, const char* symbol, const char* version) {
  return wrapper_of(runtime::genuine_dlvsym()(handle, symbol, version));
}

}  // namespace hipgraft::entry

// What dlsym, dlvsym and dlopen continue with. Answered by us is an intercepted name, unless a
// caller asks for what is behind itself (RTLD_NEXT), which depends on the caller and is how other
// preloads chain.

static bool answered_by_us(void* handle, const char* symbol, const void* caller) {
  if (symbol == nullptr || entry::row_named(symbol) == nullptr) return false;
  if (handle == RTLD_NEXT) runtime::looked_up_behind_us(symbol, caller);
  return handle != RTLD_NEXT;
}

extern "C" void* hipgraft_dlsym_target(void* handle, const char* symbol, const void* caller) {
  return answered_by_us(handle, symbol, caller) ? reinterpret_cast<void*>(&entry::find_wrapped)
                                                : reinterpret_cast<void*>(runtime::genuine_dlsym());
}

extern "C" void* hipgraft_dlvsym_target(void* handle, const char* symbol, const void* caller) {
  return answered_by_us(handle, symbol, caller)
             ? reinterpret_cast<void*>(&entry::find_wrapped_version)
             : reinterpret_cast<void*>(runtime::genuine_dlvsym());
}

extern "C" void* hipgraft_dlopen_target(const char*, std::uintptr_t flags, const void*) {
  if ((flags & RTLD_DEEPBIND) != 0) runtime::deep_binding_seen();
  return reinterpret_cast<void*>(runtime::genuine_dlopen());
}

// The genuine ones find out where they were called from, for RTLD_NEXT, RTLD_DEFAULT and the run
// path of the caller: they must be entered with the caller's own return address, so these leave no
// frame behind. The third argument of a target is that address.
#define HIPGRAFT_JUMP_TO(target) \
  "push %rdi\n\t"                \
  "push %rsi\n\t"                \
  "push %rdx\n\t"                \
  "mov 24(%rsp), %rdx\n\t"       \
  "call " #target                \
  "\n\t"                         \
  "pop %rdx\n\t"                 \
  "pop %rsi\n\t"                 \
  "pop %rdi\n\t"                 \
  "jmp *%rax\n\t"

HIPGRAFT_EXPORT __attribute__((naked)) void* dlsym(void*, const char*) noexcept {
  asm(HIPGRAFT_JUMP_TO(hipgraft_dlsym_target));
}

HIPGRAFT_EXPORT __attribute__((naked)) void* dlvsym(void*, const char*, const char*) noexcept {
  asm(HIPGRAFT_JUMP_TO(hipgraft_dlvsym_target));
}

HIPGRAFT_EXPORT __attribute__((naked)) void* dlopen(const char*, int) noexcept {
  asm(HIPGRAFT_JUMP_TO(hipgraft_dlopen_target));
}

HIPGRAFT_EXPORT hipError_t hipGetProcAddress(const char* symbol, void** function, int hipVersion,
                                             uint64_t flags,
                                             hipDriverProcAddressQueryResult* status) {
  HIPGRAFT_GUARD;
  const hipError_t result =
      guard.real().hipGetProcAddress(symbol, function, hipVersion, flags, status);
  if (guard.ours() && result == hipSuccess) *function = entry::wrapper_of(*function);
  return result;
}

HIPGRAFT_EXPORT hipError_t hipGetDriverEntryPoint(const char* symbol, void** function,
                                                  unsigned long long flags,
                                                  hipDriverEntryPointQueryResult* status) {
  HIPGRAFT_GUARD;
  const hipError_t result = guard.real().hipGetDriverEntryPoint(symbol, function, flags, status);
  if (guard.ours() && result == hipSuccess) *function = entry::wrapper_of(*function);
  return result;
}

HIPGRAFT_EXPORT hipError_t hipGetDriverEntryPoint_spt(const char* symbol, void** function,
                                                      unsigned long long flags,
                                                      hipDriverEntryPointQueryResult* status) {
  HIPGRAFT_GUARD;
  const hipError_t result =
      guard.real().hipGetDriverEntryPoint_spt(symbol, function, flags, status);
  if (guard.ours() && result == hipSuccess) *function = entry::wrapper_of(*function);
  return result;
}
