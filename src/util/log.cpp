#include "util/log.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <string_view>

#include <unistd.h>

#include "util/io.h"

namespace hipgraft::log {

namespace detail {
constinit std::atomic<Level> level{Level::warn};
}

namespace {

constexpr std::string_view kPrefix = "hipgraft: ";
constexpr std::string_view kCut = "...";
constexpr std::size_t kLineSize = 1024;

constinit std::atomic<unsigned> lines_written{0};

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// Where to cut so that no UTF-8 character is left in half.
std::size_t cut_point(const char* text, std::size_t size) {
  while (size > 0 && is_continuation(text[size])) --size;
  return size;
}

void emit(fmt::string_view format, fmt::format_args args) noexcept {
  std::array<char, kLineSize> line;
  kPrefix.copy(line.data(), kPrefix.size());
  char* const body = line.data() + kPrefix.size();
  const std::size_t room = line.size() - kPrefix.size() - 1;  // the newline

  const auto result = fmt::vformat_to_n(body, room, format, args);
  std::size_t size = result.size;
  if (size > room) {
    size = cut_point(body, room - kCut.size());
    size += kCut.copy(body + size, kCut.size());
  }
  for (std::size_t i = 0; i < size; ++i) {
    if (is_control(body[i])) body[i] = ' ';
  }
  body[size] = '\n';
  util::write_all(STDERR_FILENO, {line.data(), kPrefix.size() + size + 1});
}

}  // namespace

void detail::write_line(fmt::string_view format, fmt::format_args args) noexcept {
  if (lines_written.load(std::memory_order_relaxed) > kMaxLines) return;
  const unsigned line = lines_written.fetch_add(1, std::memory_order_relaxed);
  if (line > kMaxLines) return;

  const int saved_errno = errno;
  if (line < kMaxLines) {
    emit(format, args);
  } else {
    emit("{} messages written; the rest is withheld", fmt::make_format_args(kMaxLines));
  }
  errno = saved_errno;
}

}  // namespace hipgraft::log
