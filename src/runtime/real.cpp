#include "runtime/real.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string_view>
#include <vector>

#include "runtime/loaded_objects.h"
#include "util/log.h"

namespace hipgraft::runtime {
namespace {

constexpr std::string_view kLibrary = "libamdhip64.so";

// A runtime that is loaded. Copies are never forgotten: their functions may be on any stack.
struct Copy {
  const link_map* map = nullptr;
  Functions functions;
};

// Constant-initialised: the first call may come before our own constructors. The lock is never held
// across a call to the dynamic linker: a thread that loads a library holds the linker's lock while
// the library's constructors call HIP, and so wait for ours.
constinit std::mutex copies_mutex;
constinit std::vector<Copy*>* copies = nullptr;
constinit std::atomic<Copy*> chosen{nullptr};
constinit const char* wanted_library = nullptr;

bool is_runtime(const LoadedObject& object) {
  return std::string_view(object.file_name()).starts_with(kLibrary) ||
         std::string_view(object.soname()).starts_with(kLibrary);
}

const link_map* self() { return object_around(reinterpret_cast<const void*>(&self)); }

// The first object behind us that defines the symbol, as RTLD_NEXT would find it.
void* next_definition(const char* symbol) {
  const link_map* const ours = self();
  bool behind = false;
  for (const LoadedObject& object : loaded_objects()) {
    if (behind) {
      if (void* address = object.defined(symbol)) return address;
    }
    if (object.map() == ours) behind = true;
  }
  return nullptr;
}

// `handle` is the copy's; what RTLD_NEXT finds goes before if it is not in a runtime: another
// preload that wants to see the calls.
void* find_function(const Copy& copy, void* handle, const char* name) {
  void* next = genuine_dlsym()(RTLD_NEXT, name);
  if (next != nullptr) {
    const link_map* owner = object_around(next);
    if (owner == copy.map || (owner != nullptr && !is_runtime(LoadedObject(owner)))) return next;
  }
  return genuine_dlsym()(handle, name);
}

Copy* load_functions(const link_map* map) {
  auto* copy = new Copy;
  copy->map = map;
  void* handle = genuine_dlopen()(map->l_name, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return copy;
#define HIPGRAFT_FIND(name, result, parameters) \
  copy->functions.name = reinterpret_cast<abi::name##_fn*>(find_function(*copy, handle, #name));
#define HIPGRAFT_INTERCEPT HIPGRAFT_FIND
#define HIPGRAFT_CALL HIPGRAFT_FIND
#include "abi/functions.def"
#undef HIPGRAFT_CALL
#undef HIPGRAFT_INTERCEPT
#undef HIPGRAFT_FIND
  return copy;
}

// With the lock held.
Copy* known_copy(const link_map* map) {
  if (copies == nullptr) copies = new std::vector<Copy*>;
  for (Copy* copy : *copies) {
    if (copy->map == map) return copy;
  }
  return nullptr;
}

Copy* copy_of(const link_map* map) {
  {
    const std::lock_guard lock(copies_mutex);
    if (Copy* known = known_copy(map)) return known;
  }
  Copy* loaded = load_functions(map);
  const std::lock_guard lock(copies_mutex);
  if (Copy* known = known_copy(map)) return known;  // another thread was faster; ours leaks
  copies->push_back(loaded);
  return loaded;
}

std::vector<LoadedObject> loaded_runtimes() {
  std::vector<LoadedObject> runtimes;
  for (const LoadedObject& object : loaded_objects()) {
    if (is_runtime(object)) runtimes.push_back(object);
  }
  return runtimes;
}

bool has_name(const LoadedObject& object, std::string_view name) {
  return object.soname() == name || object.file_name() == name || object.path() == name;
}

// The runtime that the object gets from its own dependencies, nearest first; null if from none.
const link_map* runtime_needed_by(const link_map* object,
                                  const std::vector<LoadedObject>& runtimes) {
  const std::vector<LoadedObject> loaded = loaded_objects();
  std::vector<const link_map*> queue{object};
  for (std::size_t i = 0; i < queue.size(); ++i) {
    for (const char* name : LoadedObject(queue[i]).needed()) {
      for (const LoadedObject& runtime : runtimes) {
        if (has_name(runtime, name)) return runtime.map();
      }
      for (const LoadedObject& other : loaded) {
        const bool met = std::find(queue.begin(), queue.end(), other.map()) != queue.end();
        if (!met && has_name(other, name)) queue.push_back(other.map());
      }
    }
  }
  return nullptr;
}

const link_map* runtime_for(const void* caller) {
  const std::vector<LoadedObject> runtimes = loaded_runtimes();
  if (runtimes.empty()) return nullptr;
  if (runtimes.size() == 1) return runtimes[0].map();
  const link_map* around = caller != nullptr ? object_around(caller) : nullptr;
  const link_map* needed = around != nullptr ? runtime_needed_by(around, runtimes) : nullptr;
  return needed != nullptr ? needed : runtimes[0].map();
}

const link_map* open_wanted() {
  void* handle = genuine_dlopen()(wanted_library, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    log::write(log::Level::warn, "HIPGRAFT_RUNTIME: {}; taking the program's own", dlerror());
    return nullptr;
  }
  link_map* map = nullptr;
  dlinfo(handle, RTLD_DI_LINKMAP, &map);
  return map;
}

// The copy that hipgraft works on: the one asked for, else that of the first caller.
Copy* choose(const void* first_caller) {
  const link_map* map = wanted_library != nullptr ? open_wanted() : nullptr;
  if (map == nullptr) map = runtime_for(first_caller);
  if (map == nullptr) {
    log::write(log::Level::error, "no HIP runtime is loaded: HIP calls will fail");
    static Copy none;
    return &none;
  }
  return copy_of(map);
}

Copy* chosen_copy(const void* caller) {
  Copy* copy = chosen.load(std::memory_order_acquire);
  if (copy != nullptr) return copy;
  Copy* candidate = choose(caller);
  return chosen.compare_exchange_strong(copy, candidate) ? candidate : copy;
}

const Functions& find_functions_for(const void* caller) {
  const Copy* main = chosen_copy(caller);
  if (wanted_library != nullptr) return main->functions;
  const link_map* map = runtime_for(caller);
  return map != nullptr && map != main->map ? copy_of(map)->functions : main->functions;
}

// A race finds the same twice.
template <class Function>
Function* found_once(std::atomic<Function*>& found, const char* symbol) {
  Function* function = found.load(std::memory_order_relaxed);
  if (function != nullptr) return function;
  function = reinterpret_cast<Function*>(next_definition(symbol));
  found.store(function, std::memory_order_relaxed);
  return function;
}

// Places in the program that this thread has called from.
struct Place {
  const void* caller = nullptr;
  const Functions* functions = nullptr;
};
constexpr std::size_t kPlaces = 64;
constinit thread_local Place places[kPlaces];

}  // namespace

const Functions& real() { return chosen_copy(nullptr)->functions; }

const Functions& functions_for(const void* caller) {
  Place& place = places[reinterpret_cast<std::uintptr_t>(caller) / 4 % kPlaces];
  if (place.caller == caller) return *place.functions;
  place.functions = &find_functions_for(caller);
  place.caller = caller;
  return *place.functions;
}

const link_map* runtime_map() { return chosen_copy(nullptr)->map; }

const char* library_path() {
  const link_map* map = runtime_map();
  return map != nullptr ? map->l_name : "";
}

void use_library(const char* path) { wanted_library = path; }

Dlsym* genuine_dlsym() {
  static constinit std::atomic<Dlsym*> found{nullptr};
  return found_once(found, "dlsym");
}

Dlvsym* genuine_dlvsym() {
  static constinit std::atomic<Dlvsym*> found{nullptr};
  return found_once(found, "dlvsym");
}

Dlopen* genuine_dlopen() {
  static constinit std::atomic<Dlopen*> found{nullptr};
  return found_once(found, "dlopen");
}

}  // namespace hipgraft::runtime
