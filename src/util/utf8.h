#pragma once

#include <string>
#include <string_view>

namespace hipgraft::util {

// `bytes` as valid UTF-8: every byte that is not part of a well-formed character becomes U+FFFD.
// File names, arguments and symbols may hold any bytes; a JSON document may not.
std::string to_utf8(std::string_view bytes);

}  // namespace hipgraft::util
