#include "util/io.h"

#include <cerrno>
#include <ctime>

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

namespace hipgraft::util {

namespace {

// Keeps a SIGPIPE that this thread causes from being delivered. One that was pending before stays.
class SigpipeHeld {
 public:
  SigpipeHeld() {
    sigset_t pending;
    sigemptyset(&pending);
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    sigemptyset(&sigpipe_);
    sigaddset(&sigpipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &sigpipe_, &mask_);
  }
  SigpipeHeld(const SigpipeHeld&) = delete;
  SigpipeHeld& operator=(const SigpipeHeld&) = delete;
  ~SigpipeHeld() { pthread_sigmask(SIG_SETMASK, &mask_, nullptr); }

  void drop_ours() const {
    if (was_pending_) return;
    constexpr timespec kNow{};
    while (sigtimedwait(&sigpipe_, nullptr, &kNow) < 0 && errno == EINTR) {
    }
  }

 private:
  sigset_t sigpipe_;
  sigset_t mask_;
  bool was_pending_ = false;
};

// The host may have made its stderr non-blocking.
bool writable_soon(int fd) {
  constexpr int kPatienceMs = 1000;
  pollfd wait{fd, POLLOUT, 0};
  const int ready = poll(&wait, 1, kPatienceMs);
  return ready > 0 || (ready < 0 && errno == EINTR);
}

}  // namespace

bool write_all(int fd, std::string_view bytes) noexcept {
  const SigpipeHeld sigpipe;
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(written));
      continue;
    }
    const int error = errno;
    if (error == EINTR) continue;
    if (error == EAGAIN && writable_soon(fd)) continue;
    if (error == EPIPE) sigpipe.drop_ours();
    errno = error;
    return false;
  }
  return true;
}

}  // namespace hipgraft::util
