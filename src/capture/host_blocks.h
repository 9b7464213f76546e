// hipMalloc and its kin, called by a thread that captures.
//
// Since captures begin Relaxed such a call is legal, and stays what it is: an allocation of its own
// that needs no node. Its free inside the same capture is another matter, because nothing that was
// captured has run yet: the memory then passes to the capture's arena, where later requests of the
// capture may take its bytes as any others, and lives as long as the graph. What the capture does
// not free remains an ordinary allocation, and so does what is freed on a stream that does not
// capture or after the capture was killed.
#pragma once

#include "capture/state.h"
#include "dag/mirror.h"

namespace hipgraft::capture {

// The runtime has given `bytes` at `pointer`.
void host_block_allocated(void* pointer, std::size_t bytes);

// A free of memory that is not the arena's: in stream order if `stream` is given, else by the host.
// Answers nothing unless it is such a block.
Answer free_host_block(void* pointer, const abi::hipStream_t* stream);

}  // namespace hipgraft::capture
