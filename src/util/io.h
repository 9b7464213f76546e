#pragma once

#include <string_view>

namespace hipgraft::util {

// Writes all of `bytes` to `fd`, through interrupts and short writes, and waits a second at most
// for a non-blocking one. False with errno set if that fails. A reader that has gone away is an
// error (EPIPE) and not a SIGPIPE: the host program never asked for what we write, so it must not
// die of it.
bool write_all(int fd, std::string_view bytes) noexcept;

}  // namespace hipgraft::util
