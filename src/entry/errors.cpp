#include "entry/guard.h"
#include "runtime/last_error.h"

using namespace hipgraft;
using namespace hipgraft::abi;
using runtime::real;

HIPGRAFT_EXPORT hipError_t hipGetLastError(void) {
  const entry::Guard guard;
  return guard.ours() ? runtime::take_last_error() : real().hipGetLastError();
}

HIPGRAFT_EXPORT hipError_t hipPeekAtLastError(void) {
  const entry::Guard guard;
  return guard.ours() ? runtime::peek_last_error() : real().hipPeekAtLastError();
}
