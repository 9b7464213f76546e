// Which device a memory pool's memory is on.
#pragma once

#include "abi/types.h"
#include "capture/state.h"

namespace hipgraft::capture {

void pool_made(abi::hipMemPool_t pool, const abi::hipMemPoolProps& properties);
void pool_destroyed(abi::hipMemPool_t pool);

// Nothing for a pool that hipgraft has not seen made: an imported one, or one made past it.
std::optional<Pool> pool_of(abi::hipMemPool_t handle);

}  // namespace hipgraft::capture
