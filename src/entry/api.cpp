// The public header's functions.
#define HIPGRAFT_API __attribute__((visibility("default")))
#include "hipgraft/hipgraft.h"

#include "entry/guard.h"

using namespace hipgraft;

const char* hipgraft_version(void) { return HIPGRAFT_VERSION; }

int hipgraft_active(void) { return entry::at_work() ? 1 : 0; }

// Steps matter to automatic replay only, which does not exist yet.
void hipgraft_mark_step(const char*) {}

void hipgraft_write_report(void) {
  HIPGRAFT_GUARD;
  if (entry::at_work()) entry::write_report();
}
