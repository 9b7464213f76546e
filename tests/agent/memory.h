// What is known about addresses, for the parts of the agent that do not allocate themselves.
#pragma once

#include <sys/types.h>

#include <string>

#include "agent.h"

namespace softagent {

// A whole allocation in a GPU's pool.
struct DeviceBlock {
  void* base = nullptr;
  size_t size = 0;
  size_t mapped_size = 0;
  Pool* pool = nullptr;
  off_t offset = 0;  // in the device file
};
bool find_device_block(const void* base, DeviceBlock& out);

// Memory of another process, mapped here. It is charged there.
void add_imported_block(const DeviceBlock& block);
bool remove_imported_block(void* base, DeviceBlock& out);

// For messages: "gpu0 0x7f0000000000+0x40 of 4096", "freed gpu0 ...", "unknown".
std::string describe_address(const void* pointer);

}  // namespace softagent
