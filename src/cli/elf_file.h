// What an ELF file says of itself, without loading it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>

namespace hipgraft::cli {

struct ElfFile {
  int bits = 0;  // 32 or 64
  std::uint16_t machine = 0;
  std::string interpreter;  // the dynamic linker of a program; empty: static, or a library
  // Of 64-bit files only:
  std::string soname;
  std::set<std::string> defined;  // functions in the dynamic symbol table
  std::set<std::string> imported;
};

// Nothing if the file cannot be read or is no ELF file. A damaged one is read as far as it goes.
std::optional<ElfFile> read_elf(const std::filesystem::path& path);

// "x86-64", "AArch64", ...
std::string architecture(const ElfFile& file);

}  // namespace hipgraft::cli
