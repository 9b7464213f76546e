// Whether some code of the process can free memory of the runtime without our noticing. An arena
// block that is freed in this way takes the whole chunk with it (ihipFree of 5.7 to 7.2 has no
// offset test), so while there is such code the arena must not serve.
//
// An object's calls lead past us if its imports of a freeing function were bound to the runtime (it
// was loaded with RTLD_DEEPBIND, or by another dynamic linker namespace's rules), or if it has
// asked for such a function by RTLD_NEXT from behind us without being an interposer itself.
#pragma once

namespace hipgraft::runtime {

// File name of an object that frees past us; null if there is none. Looks again only when objects
// were loaded or unloaded since the last time. Any thread; hold no lock.
const char* object_that_bypasses();

// For dlopen: imports of what is loaded so may be bound to the runtime later, when first called.
void deep_binding_seen();

// For dlsym: the code around `caller` has asked for `symbol` behind us.
void looked_up_behind_us(const char* symbol, const void* caller);

}  // namespace hipgraft::runtime
