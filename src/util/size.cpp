#include "util/size.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>

namespace hipgraft::util {

namespace {

std::optional<unsigned> shift_of(char suffix) {
  switch (suffix) {
    case 'K':
    case 'k':
      return 10;
    case 'M':
    case 'm':
      return 20;
    case 'G':
    case 'g':
      return 30;
    default:
      return std::nullopt;
  }
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

constexpr std::array<const char*, 7> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};

struct Scaled {
  double value;
  std::size_t unit;  // index into kUnits
};

Scaled scale(std::uint64_t bytes) {
  Scaled scaled{static_cast<double>(bytes), 0};
  if (bytes < 1024) return scaled;
  // From 1023.95 on, one decimal would print 1024.0.
  while (scaled.value >= 1023.95 && scaled.unit + 1 < kUnits.size()) {
    scaled.value /= 1024;
    ++scaled.unit;
  }
  return scaled;
}

std::string number(const Scaled& scaled) {
  return fmt::format("{:.{}f}", scaled.value, scaled.unit == 0 ? 0 : 1);
}

}  // namespace

std::optional<std::uint64_t> parse_size(std::string_view text) {
  unsigned shift = 0;
  if (!text.empty() && !is_digit(text.back())) {
    const std::optional<unsigned> suffix = shift_of(text.back());
    if (!suffix) return std::nullopt;
    shift = *suffix;
    text.remove_suffix(1);
  }
  if (text.empty()) return std::nullopt;

  std::uint64_t value = 0;
  for (const char c : text) {
    if (!is_digit(c)) return std::nullopt;
    const auto digit = static_cast<std::uint64_t>(c - '0');
    if (__builtin_mul_overflow(value, 10U, &value)) return std::nullopt;
    if (__builtin_add_overflow(value, digit, &value)) return std::nullopt;
  }
  if (__builtin_mul_overflow(value, std::uint64_t{1} << shift, &value)) return std::nullopt;
  return value;
}

std::string print_size(std::uint64_t bytes) {
  constexpr std::array<const char*, 4> kSuffixes = {"", "K", "M", "G"};
  std::size_t suffix = 0;
  while (bytes != 0 && bytes % 1024 == 0 && suffix + 1 < kSuffixes.size()) {
    bytes /= 1024;
    ++suffix;
  }
  return fmt::format("{}{}", bytes, kSuffixes[suffix]);
}

std::string human_size(std::uint64_t bytes) {
  const Scaled scaled = scale(bytes);
  return fmt::format("{} {}", number(scaled), kUnits[scaled.unit]);
}

std::string human_size_beside(std::uint64_t bytes, std::uint64_t reference) {
  const Scaled scaled = scale(bytes);
  return scaled.unit == scale(reference).unit ? number(scaled) : human_size(bytes);
}

}  // namespace hipgraft::util
