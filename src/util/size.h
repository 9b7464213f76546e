// Byte counts as people write and read them. K, M and G are powers of 1024.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace hipgraft::util {

// "4096", "512K", "2M", "1G" (either case). Anything else, and what overflows, is nullopt.
std::optional<std::uint64_t> parse_size(std::string_view text);

// The shortest text that parse_size reads back as `bytes`: "2M", "1536K", "4097".
std::string print_size(std::uint64_t bytes);

// For people, rounded: "9.7 MiB", "512 B". Short enough not to allocate.
std::string human_size(std::uint64_t bytes);

// `bytes` for a reader who has just seen human_size(reference): the bare number where the unit is
// the same ("9.1"), otherwise human_size(bytes).
std::string human_size_beside(std::uint64_t bytes, std::uint64_t reference);

}  // namespace hipgraft::util
