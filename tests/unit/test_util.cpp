#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "child.h"
#include "util/io.h"
#include "util/log.h"
#include "util/size.h"
#include "util/utf8.h"

namespace log = hipgraft::log;
namespace util = hipgraft::util;

TEST_SUITE("size") {
  TEST_CASE("sizes are read") {
    CHECK(util::parse_size("0") == 0);
    CHECK(util::parse_size("4097") == 4097);
    CHECK(util::parse_size("512K") == 524288);
    CHECK(util::parse_size("2M") == 2097152);
    CHECK(util::parse_size("1g") == 1073741824);
    CHECK(util::parse_size("18446744073709551615") == UINT64_MAX);
    CHECK(util::parse_size("17179869183G") == 18446744072635809792ULL);
  }

  TEST_CASE("nonsense is not read as a size") {
    for (const char* text :
         {"", "K", "M2", "2MB", "2 M", " 2M", "2M ", "-1", "+1", "0x10", "1.5M", "2T", "two"}) {
      CAPTURE(text);
      CHECK_FALSE(util::parse_size(text));
    }
  }

  TEST_CASE("a size above 64 bits is refused, not wrapped") {
    for (const char* text : {"18446744073709551616", "99999999999999999999999", "17179869184G",
                             "18014398509481984K"}) {
      CAPTURE(text);
      CHECK_FALSE(util::parse_size(text));
    }
  }

  TEST_CASE("print_size is the shortest exact form") {
    CHECK(util::print_size(0) == "0");
    CHECK(util::print_size(1023) == "1023");
    CHECK(util::print_size(2097152) == "2M");
    CHECK(util::print_size(1572864) == "1536K");
    CHECK(util::print_size(1ULL << 40) == "1024G");
    for (const std::uint64_t bytes : {1ULL, 4097ULL, 1ULL << 20, 3ULL << 30, ~0ULL}) {
      CHECK(util::parse_size(util::print_size(bytes)) == bytes);
    }
  }

  TEST_CASE("sizes for people") {
    CHECK(util::human_size(0) == "0 B");
    CHECK(util::human_size(1023) == "1023 B");
    CHECK(util::human_size(1024) == "1.0 KiB");
    CHECK(util::human_size(10171187) == "9.7 MiB");
    CHECK(util::human_size(2ULL << 30) == "2.0 GiB");
    CHECK(util::human_size(UINT64_MAX) == "16.0 EiB");
    // One byte below a unit rounds up into it, and never prints as 1024.0 of the smaller one.
    CHECK(util::human_size((1ULL << 20) - 1) == "1.0 MiB");
  }

  TEST_CASE("a unit is repeated only where it differs") {
    CHECK(util::human_size_beside(9542042, 10171187) == "9.1");
    CHECK(util::human_size_beside(512 << 10, 2ULL << 30) == "512.0 KiB");
  }
}

namespace {

std::string encoded(std::uint32_t code_point) {
  const auto tail = [code_point](unsigned shift) {
    return static_cast<char>(0x80 | ((code_point >> shift) & 0x3F));
  };
  if (code_point < 0x80) return {static_cast<char>(code_point)};
  if (code_point < 0x800) return {static_cast<char>(0xC0 | (code_point >> 6)), tail(0)};
  if (code_point < 0x10000) return {static_cast<char>(0xE0 | (code_point >> 12)), tail(6), tail(0)};
  return {static_cast<char>(0xF0 | (code_point >> 18)), tail(12), tail(6), tail(0)};
}

bool is_surrogate(std::uint32_t code_point) { return code_point >= 0xD800 && code_point < 0xE000; }

const std::string kReplacement = "\xEF\xBF\xBD";

std::string replacements(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += kReplacement;
  return text;
}

}  // namespace

TEST_SUITE("utf8") {
  TEST_CASE("every character stays") {
    std::string all;
    for (std::uint32_t c = 0; c < 0x110000; ++c) {
      if (!is_surrogate(c)) all += encoded(c);
    }
    CHECK((util::to_utf8(all) == all));  // parenthesised: not to be printed
  }

  TEST_CASE("surrogates and what lies above U+10FFFF are replaced") {
    for (std::uint32_t c = 0xD800; c < 0xE000; ++c) {
      CHECK(util::to_utf8(encoded(c)) == replacements(3));
    }
    CHECK(util::to_utf8(encoded(0x110000)) == replacements(4));
    CHECK(util::to_utf8("\xF5\x80\x80\x80") == replacements(4));
  }

  TEST_CASE("overlong forms are replaced") {
    CHECK(util::to_utf8("\xC0\xAF") == replacements(2));
    CHECK(util::to_utf8("\xC1\xBF") == replacements(2));
    CHECK(util::to_utf8("\xE0\x80\xAF") == replacements(3));
    CHECK(util::to_utf8("\xF0\x80\x80\xAF") == replacements(4));
  }

  TEST_CASE("bad bytes do not swallow their neighbours") {
    CHECK(util::to_utf8("a\xFF"
                        "b") == "a" + kReplacement + "b");
    CHECK(util::to_utf8("\xE2\x82") == replacements(2));  // cut off
    CHECK(util::to_utf8("\xE2\x82|") == replacements(2) + "|");
    CHECK(util::to_utf8("\x80\xC3\xA4") == kReplacement + "\xC3\xA4");
  }
}

TEST_SUITE("log") {
  TEST_CASE("a message is one line by one write") {
    const ChildResult child = in_child([] {
      log::write(log::Level::warn, "{} of {}", 3, "four");
      log::write(log::Level::error, "next");
      return 0;
    });
    CHECK(child.writes == std::vector<std::string>{"hipgraft: 3 of four\n", "hipgraft: next\n"});
  }

  TEST_CASE("levels include the ones before them") {
    const ChildResult child = in_child([] {
      log::write(log::Level::info, "silent: warn is the default");
      log::set_level(log::Level::debug);
      log::write(log::Level::info, "info");
      log::write(log::Level::debug, "debug");
      log::write(log::Level::trace, "silent");
      log::set_level(log::Level::off);
      log::write(log::Level::error, "silent");
      return log::enabled(log::Level::error) || log::enabled(log::Level::off) ? 1 : 0;
    });
    CHECK(child.err() == "hipgraft: info\nhipgraft: debug\n");
    CHECK(child.exited_with(0));
  }

  TEST_CASE("control characters cannot break the line") {
    const ChildResult child = in_child([] {
      log::write(log::Level::warn, "file {}", "a\nhipgraft: forged\x1b[2J\t\x7f.");
      return 0;
    });
    CHECK(child.err() == "hipgraft: file a hipgraft: forged [2J  .\n");
  }

  TEST_CASE("a long message is cut between characters") {
    for (const std::size_t lead : {0U, 1U, 2U}) {
      const ChildResult child = in_child([lead] {
        std::string text(lead, 'x');
        for (int i = 0; i < 1000; ++i) text += "\xE2\x82\xAC";
        log::write(log::Level::warn, "{}", text);
        return 0;
      });
      const std::string line = child.err();
      CHECK(line.size() <= 1024);
      CHECK(line.size() > 1000);
      CHECK(line.ends_with("\xE2\x82\xAC...\n"));
      CHECK(util::to_utf8(line) == line);
    }
  }

  TEST_CASE("the number of lines is capped, over all threads") {
    const ChildResult child = in_child([] {
      std::vector<std::thread> threads;
      for (int t = 0; t < 4; ++t) {
        threads.emplace_back([] {
          for (int i = 0; i < 100; ++i) log::write(log::Level::warn, "noise");
        });
      }
      for (std::thread& thread : threads) thread.join();
      return 0;
    });
    REQUIRE(child.writes.size() == 201);
    CHECK(std::count(child.writes.begin(), child.writes.end(), "hipgraft: noise\n") == 200);
    CHECK(std::count(child.writes.begin(), child.writes.end(),
                     "hipgraft: 200 messages written; the rest is withheld\n") == 1);
  }

  TEST_CASE("errno survives, also where stderr is closed") {
    const ChildResult child = in_child([] {
      errno = ENOTTY;
      log::write(log::Level::warn, "{}", 1);
      if (errno != ENOTTY) return 1;
      close(STDERR_FILENO);
      log::write(log::Level::warn, "{}", 2);
      return errno == ENOTTY ? 0 : 2;
    });
    CHECK(child.exited_with(0));
  }

  TEST_CASE("a stderr that nobody reads does not kill the program") {
    const ChildResult child = in_child([] {
      int ends[2];
      if (pipe(ends) != 0) return 1;
      close(ends[0]);
      dup2(ends[1], STDERR_FILENO);
      log::write(log::Level::warn, "to nobody");
      sigset_t pending;
      sigpending(&pending);
      return sigismember(&pending, SIGPIPE);
    });
    CHECK(child.exited_with(0));
  }

  TEST_CASE("a SIGPIPE that the program holds back stays pending") {
    const ChildResult child = in_child([] {
      sigset_t set;
      sigemptyset(&set);
      sigaddset(&set, SIGPIPE);
      pthread_sigmask(SIG_BLOCK, &set, nullptr);
      raise(SIGPIPE);
      int ends[2];
      if (pipe(ends) != 0) return 2;
      close(ends[0]);
      if (util::write_all(ends[1], "x") || errno != EPIPE) return 3;
      sigset_t pending;
      sigpending(&pending);
      return sigismember(&pending, SIGPIPE);
    });
    CHECK(child.exited_with(1));
  }
}

namespace {

// More than a pipe holds, and different everywhere.
std::string pattern() {
  std::string text(1 << 20, '\0');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7 + i / 251);
  return text;
}

struct Pipe {
  Pipe() {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    out = ends[0];
    in = ends[1];
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() { close(out); }

  void wait_until_full() const {
    const int capacity = fcntl(out, F_GETPIPE_SZ);
    int held = 0;
    while (held < capacity) {
      ioctl(out, FIONREAD, &held);
      usleep(1000);
    }
  }

  std::string drain() const {
    std::string received;
    char buffer[4096];
    for (ssize_t size = 0; (size = read(out, buffer, sizeof buffer)) > 0;) {
      received.append(buffer, static_cast<std::size_t>(size));
    }
    return received;
  }

  int out = -1;
  int in = -1;
};

}  // namespace

TEST_SUITE("io") {
  TEST_CASE("write_all goes on through interrupts and short writes") {
    struct sigaction action {};
    action.sa_handler = [](int) {};  // without SA_RESTART
    struct sigaction before;
    sigaction(SIGUSR1, &action, &before);

    Pipe pipe;
    const std::string sent = pattern();
    bool written = false;
    std::thread writer([&] {
      written = util::write_all(pipe.in, sent);
      close(pipe.in);
    });
    pipe.wait_until_full();
    for (int i = 0; i < 20; ++i) {
      pthread_kill(writer.native_handle(), SIGUSR1);
      usleep(1000);
    }
    const std::string received = pipe.drain();
    writer.join();
    sigaction(SIGUSR1, &before, nullptr);
    CHECK(written);
    CHECK((received == sent));
  }

  TEST_CASE("write_all waits for a reader of a non-blocking pipe, but not for ever") {
    Pipe pipe;
    fcntl(pipe.in, F_SETFL, O_NONBLOCK);
    const std::string sent = pattern();
    CHECK_FALSE(util::write_all(pipe.in, sent));
    CHECK(errno == EAGAIN);

    Pipe read_pipe;
    fcntl(read_pipe.in, F_SETFL, O_NONBLOCK);
    bool written = false;
    std::thread writer([&] {
      written = util::write_all(read_pipe.in, sent);
      close(read_pipe.in);
    });
    read_pipe.wait_until_full();
    const std::string received = read_pipe.drain();
    writer.join();
    CHECK(written);
    CHECK((received == sent));
    close(pipe.in);
  }

  TEST_CASE("write_all says why it failed") {
    const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    REQUIRE(full >= 0);
    CHECK_FALSE(util::write_all(full, "x"));
    CHECK(errno == ENOSPC);
    close(full);
  }
}
