// The public header's functions.
#include "entry/guard.h"
#include "hipgraft/hipgraft.h"

using namespace hipgraft;

HIPGRAFT_EXPORT const char* hipgraft_version(void) { return HIPGRAFT_VERSION; }
HIPGRAFT_EXPORT int hipgraft_active(void) { return entry::active() ? 1 : 0; }
HIPGRAFT_EXPORT void hipgraft_mark_step(const char*) {}
HIPGRAFT_EXPORT void hipgraft_write_report(void) {
  const entry::Guard guard;
  entry::write_report();
}
