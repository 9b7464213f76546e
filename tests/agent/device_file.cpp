#include "device_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <mutex>

namespace softagent::device_file {
namespace {

struct File {
  std::mutex mutex;
  const int descriptor = memfd_create("softagent memory", MFD_CLOEXEC);
  off_t end = 0;
};

File& file() {
  static File& instance = *new File;
  return instance;
}

}  // namespace

off_t take(size_t size) {
  File& target = file();
  const std::lock_guard lock(target.mutex);
  const off_t offset = target.end;
  const off_t end = offset + static_cast<off_t>(size);
  if (ftruncate(target.descriptor, end) != 0) return -1;
  target.end = end;
  return offset;
}

void give_back(off_t offset, size_t size) {
  fallocate(file().descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset,
            static_cast<off_t>(size));
}

bool map(void* address, size_t size, off_t offset, int protection) {
  return mmap(address, size, protection, MAP_SHARED | MAP_FIXED, file().descriptor, offset) !=
         MAP_FAILED;
}

int descriptor() { return file().descriptor; }

}  // namespace softagent::device_file
