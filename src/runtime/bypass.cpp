#include "runtime/bypass.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>

#include "runtime/loaded_objects.h"
#include "runtime/real.h"
#include "util/log.h"

namespace hipgraft::runtime {
namespace {

// All begin with "hip", which for_each_import looks for first.
constexpr const char* kFreeing[] = {
    "hipFree",     "hipFreeAsync",      "hipHostFree",
    "hipFreeHost", "hipHostUnregister", "hipIpcCloseMemHandle",
};

constinit std::atomic<bool> deep_binding{false};
constinit std::atomic<const char*> asked_behind_us{nullptr};  // a file name, leaked
constinit std::atomic<std::uint64_t> looked_at{0};            // objects_changed() of the last look
constinit std::atomic<const char*> found{nullptr};            // a file name, leaked

bool frees(const char* symbol) {
  return std::any_of(std::begin(kFreeing), std::end(kFreeing),
                     [&](const char* name) { return std::strcmp(name, symbol) == 0; });
}

bool inside(const LoadedObject& object, const void* address) {
  return object_around(address) == object.map();
}

// Whether a call through the filled slot, or one that is still to be bound, leads into the runtime.
bool leads_past_us(const LoadedObject& object, const void* target, const LoadedObject& runtime) {
  if (inside(runtime, target)) return true;
  return deep_binding.load() && inside(object, target);  // a stub: not bound yet
}

bool bypasses(const LoadedObject& object, const LoadedObject& runtime) {
  bool past_us = false;
  object.for_each_import("hip", [&](const char* symbol, void* const* slot) {
    if (!past_us && frees(symbol)) past_us = leads_past_us(object, *slot, runtime);
  });
  return past_us;
}

const char* look() {
  if (const char* asked = asked_behind_us.load()) return asked;
  const link_map* runtime = runtime_map();
  if (runtime == nullptr) return nullptr;
  const link_map* ours = object_around(reinterpret_cast<const void*>(&look));
  for (const LoadedObject& object : loaded_objects()) {
    if (object.map() == runtime || object.map() == ours) continue;
    if (bypasses(object, LoadedObject(runtime))) return strdup(object.file_name());
  }
  return nullptr;
}

}  // namespace

const char* object_that_bypasses() {
  const std::uint64_t now = objects_changed();
  if (looked_at.load(std::memory_order_acquire) == now) {
    return found.load(std::memory_order_relaxed);
  }
  const char* object = look();
  found.store(object, std::memory_order_relaxed);
  looked_at.store(now, std::memory_order_release);
  if (object != nullptr) {
    log::write(log::Level::warn, "{} can free memory past hipgraft: the arena is off", object);
  }
  return object;
}

void deep_binding_seen() { deep_binding.store(true); }

void looked_up_behind_us(const char* symbol, const void* caller) {
  if (!frees(symbol)) return;
  const link_map* map = object_around(caller);
  if (map == nullptr) return;
  const LoadedObject object(map);
  if (object.defined(symbol) != nullptr) return;  // an interposer, which the program's calls meet
  asked_behind_us.store(strdup(object.file_name()));
  looked_at.store(0);
}

}  // namespace hipgraft::runtime
