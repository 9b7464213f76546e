#include "runtime/bypass.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <vector>

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

// The objects that were there before the first one was loaded with RTLD_DEEPBIND; leaked.
constinit std::atomic<const std::vector<const link_map*>*> bound_by_us{nullptr};
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

// Whether later bindings of the object may lead past us. Objects that came after the first
// deep-bound one cannot be told apart from it.
bool may_be_deep_bound(const LoadedObject& object) {
  const std::vector<const link_map*>* before = bound_by_us.load();
  return before != nullptr &&
         std::find(before->begin(), before->end(), object.map()) == before->end();
}

// Whether a call through the filled slot, or one that is still to be bound, leads into the runtime.
bool leads_past_us(const LoadedObject& object, const void* target, const LoadedObject& runtime) {
  if (inside(runtime, target)) return true;
  return may_be_deep_bound(object) && inside(object, target);  // a stub: not bound yet
}

const char* name_of(const LoadedObject& object) {
  const char* name = object.file_name();
  return strdup(*name != '\0' ? name : "the program itself");
}

// Whether the object comes before ours where RTLD_NEXT looks: it then finds us.
bool before_us(const link_map* map) {
  const link_map* ours = object_around(reinterpret_cast<const void*>(&before_us));
  for (const LoadedObject& object : loaded_objects()) {
    if (object.map() == map) return true;
    if (object.map() == ours) return false;
  }
  return false;
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
    if (bypasses(object, LoadedObject(runtime))) return name_of(object);
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

void deep_binding_seen() {
  if (bound_by_us.load() != nullptr) return;
  auto* before = new std::vector<const link_map*>;
  for (const LoadedObject& object : loaded_objects()) before->push_back(object.map());
  const std::vector<const link_map*>* none = nullptr;
  if (!bound_by_us.compare_exchange_strong(none, before)) delete before;
}

void looked_up_behind_us(const char* symbol, const void* caller) {
  if (!frees(symbol)) return;
  const link_map* map = object_around(caller);
  if (map == nullptr) return;
  const LoadedObject object(map);
  if (object.defined(symbol) != nullptr) return;  // an interposer, which the program's calls meet
  if (before_us(map)) return;
  asked_behind_us.store(name_of(object));
  looked_at.store(0);
}

}  // namespace hipgraft::runtime
