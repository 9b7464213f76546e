#include "cli/elf_file.h"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string_view>
#include <system_error>

namespace hipgraft::cli {

namespace {

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  // All zero if the file is too short.
  template <class T>
  T at(std::uint64_t offset) const {
    T value{};
    if (offset <= bytes_.size() && bytes_.size() - offset >= sizeof value) {
      std::memcpy(&value, bytes_.data() + offset, sizeof value);
    }
    return value;
  }

  std::string text(std::uint64_t offset) const {
    if (offset >= bytes_.size()) return {};
    const std::string_view rest = bytes_.substr(offset);
    return std::string(rest.substr(0, rest.find('\0')));
  }

  std::uint64_t most(std::uint64_t count, std::size_t size) const {
    return std::min<std::uint64_t>(count, bytes_.size() / size);
  }

 private:
  std::string_view bytes_;
};

template <class Header, class Segment>
void read_interpreter(const Reader& reader, ElfFile& file) {
  const auto header = reader.at<Header>(0);
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    const auto segment = reader.at<Segment>(header.e_phoff + i * sizeof(Segment));
    if (segment.p_type == PT_INTERP) file.interpreter = reader.text(segment.p_offset);
  }
}

void read_symbols(const Reader& reader, const Elf64_Shdr& section, std::uint64_t strings,
                  ElfFile& file) {
  const std::uint64_t count = reader.most(section.sh_size / sizeof(Elf64_Sym), sizeof(Elf64_Sym));
  for (std::uint64_t i = 1; i < count; ++i) {
    const auto symbol = reader.at<Elf64_Sym>(section.sh_offset + i * sizeof(Elf64_Sym));
    const bool imported = symbol.st_shndx == SHN_UNDEF;
    const unsigned type = ELF64_ST_TYPE(symbol.st_info);
    if (!imported && type != STT_FUNC && type != STT_GNU_IFUNC) continue;
    (imported ? file.imported : file.defined).insert(reader.text(strings + symbol.st_name));
  }
}

void read_dynamic(const Reader& reader, const Elf64_Shdr& section, std::uint64_t strings,
                  ElfFile& file) {
  const std::uint64_t count = reader.most(section.sh_size / sizeof(Elf64_Dyn), sizeof(Elf64_Dyn));
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto entry = reader.at<Elf64_Dyn>(section.sh_offset + i * sizeof(Elf64_Dyn));
    if (entry.d_tag == DT_SONAME) file.soname = reader.text(strings + entry.d_un.d_val);
  }
}

void read_sections(const Reader& reader, ElfFile& file) {
  const auto header = reader.at<Elf64_Ehdr>(0);
  const auto section_at = [&](std::uint64_t index) {
    return reader.at<Elf64_Shdr>(header.e_shoff + index * sizeof(Elf64_Shdr));
  };
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    const Elf64_Shdr section = section_at(i);
    const std::uint64_t strings = section_at(section.sh_link).sh_offset;
    if (section.sh_type == SHT_DYNSYM) read_symbols(reader, section, strings, file);
    if (section.sh_type == SHT_DYNAMIC) read_dynamic(reader, section, strings, file);
  }
}

}  // namespace

std::optional<ElfFile> read_elf(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return std::nullopt;
  std::ifstream stream(path, std::ios::binary);
  if (stream.peek() != ELFMAG[0]) return std::nullopt;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (error) return std::nullopt;
  std::string bytes(size, '\0');
  stream.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<std::size_t>(std::max<std::streamsize>(stream.gcount(), 0)));
  if (bytes.size() < sizeof(Elf32_Ehdr) || !bytes.starts_with(ELFMAG)) return std::nullopt;

  const Reader reader(bytes);
  ElfFile file;
  file.machine = reader.at<Elf64_Ehdr>(0).e_machine;  // lies at one place in both classes
  if (bytes.size() < sizeof(Elf64_Ehdr)) file.machine = reader.at<Elf32_Ehdr>(0).e_machine;
  if (bytes[EI_CLASS] == ELFCLASS64) {
    file.bits = 64;
    read_interpreter<Elf64_Ehdr, Elf64_Phdr>(reader, file);
    read_sections(reader, file);
  } else {
    file.bits = 32;
    read_interpreter<Elf32_Ehdr, Elf32_Phdr>(reader, file);
  }
  return file;
}

std::string architecture(const ElfFile& file) {
  switch (file.machine) {
    case EM_X86_64:
      return file.bits == 64 ? "x86-64" : "x32";
    case EM_386:
      return "i386";
    case EM_AARCH64:
      return "AArch64";
    case EM_ARM:
      return "ARM";
    case EM_PPC64:
      return "PowerPC 64";
    case EM_RISCV:
      return "RISC-V";
    default:
      return fmt::format("ELF machine {}", file.machine);
  }
}

}  // namespace hipgraft::cli
