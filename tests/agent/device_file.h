// Device memory lies in one sparse file without a name, so that it can be mapped more than once:
// at several addresses of the virtual memory API, and in other processes.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace softagent::device_file {

// Offset of `size` fresh zero bytes, -1 if there are none. Offsets are not used again.
off_t take(size_t size);
void give_back(off_t offset, size_t size);
// Maps over whatever is at `address`.
bool map(void* address, size_t size, off_t offset, int protection);
int descriptor();

}  // namespace softagent::device_file
