#include "entry/guard.h"
#include "runtime/last_error.h"

using namespace hipgraft;
using namespace hipgraft::abi;

HIPGRAFT_EXPORT hipError_t hipGetLastError(void) {
  HIPGRAFT_GUARD;
  return guard.ours() ? runtime::take_last_error() : guard.real().hipGetLastError();
}

HIPGRAFT_EXPORT hipError_t hipPeekAtLastError(void) {
  HIPGRAFT_GUARD;
  return guard.ours() ? runtime::peek_last_error() : guard.real().hipPeekAtLastError();
}
