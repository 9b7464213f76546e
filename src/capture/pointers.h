// What a program is told about arena memory: that each block is an allocation of its own, and how
// much memory graphs use. The runtime knows the chunks only.
#pragma once

#include "arena/block_index.h"
#include "capture/state.h"

namespace hipgraft::capture {

// The arena block that `pointer` points into: the last one that was handed out there, freed or not,
// while a graph, an exec or the program may use its memory. Nothing for all other memory; most of
// that is told apart without the lock.
std::optional<arena::BlockIndex::Block> block_around(const void* pointer);

// Puts right what the runtime has answered in `value` for a pointer into the block.
void correct_attribute(const arena::BlockIndex::Block& block, abi::hipPointer_attribute attribute,
                       void* value);

// For calls that would hand a whole chunk, with all the blocks in it, to somebody else: `error`.
// The first of each of them, told apart by `said`, is logged.
abi::hipError_t refuse_export(const char* call, abi::hipError_t error, std::atomic_flag& said);

// hipDeviceGetGraphMemAttribute and hipDeviceSetGraphMemAttribute, which the runtime has answered
// successfully for its own memory: adds the arena's bytes, resets the arena's high-water mark.
void add_graph_memory(int device, abi::hipGraphMemAttributeType attribute, std::uint64_t& value);
void reset_graph_memory(int device, abi::hipGraphMemAttributeType attribute);

}  // namespace hipgraft::capture
