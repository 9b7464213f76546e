// Code objects: ELF images for the GPU, loaded like shared objects.
#include <elf.h>
#include <sys/mman.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <string_view>
#include <unordered_map>

#include "agent.h"
#include "kernels.h"

namespace softagent {
namespace {

constexpr Elf64_Half machine_amdgpu = 224;
// Code objects before version 3 gave kernels a symbol type of their own.
constexpr unsigned symbol_type_kernel = STT_LOOS;
constexpr uint32_t relocation_abs64 = 3;
constexpr uint32_t relocation_relative64 = 13;
constexpr std::string_view descriptor_suffix = ".kd";

struct Symbol {
  std::string name;
  Agent* agent;
  uint8_t* address;
  size_t size;
  std::unique_ptr<Kernel> kernel;  // null for a variable
  bool writable;
};

struct Reader {
  std::span<const uint8_t> image;
};

std::shared_mutex kernels_mutex;
std::unordered_map<uint64_t, Kernel*>& kernels_by_object() {
  static auto& map = *new std::unordered_map<uint64_t, Kernel*>;
  return map;
}

// Bounds-checked view of an ELF image; anything out of bounds reads as absent.
class Image {
 public:
  explicit Image(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  const Elf64_Ehdr* header() const {
    const auto* header = at<Elf64_Ehdr>(0);
    if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return nullptr;
    if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_machine != machine_amdgpu) {
      return nullptr;
    }
    return header;
  }

  std::span<const Elf64_Phdr> segments() const {
    const Elf64_Ehdr* file = header();
    return table<Elf64_Phdr>(file->e_phoff, file->e_phnum);
  }

  std::span<const Elf64_Shdr> sections() const {
    const Elf64_Ehdr* file = header();
    return table<Elf64_Shdr>(file->e_shoff, file->e_shnum);
  }

  template <class Entry>
  std::span<const Entry> entries(const Elf64_Shdr& section) const {
    return table<Entry>(section.sh_offset, section.sh_size / sizeof(Entry));
  }

  const char* text(const Elf64_Shdr& strings, uint32_t offset) const {
    const auto bytes = table<char>(strings.sh_offset, strings.sh_size);
    if (offset >= bytes.size() || bytes.back() != '\0') return "";
    return bytes.data() + offset;
  }

  const uint8_t* data(uint64_t offset, uint64_t size) const {
    return offset <= bytes_.size() && size <= bytes_.size() - offset ? bytes_.data() + offset
                                                                     : nullptr;
  }

 private:
  template <class Entry>
  const Entry* at(uint64_t offset) const {
    return reinterpret_cast<const Entry*>(data(offset, sizeof(Entry)));
  }

  template <class Entry>
  std::span<const Entry> table(uint64_t offset, uint64_t count) const {
    const uint8_t* begin = data(offset, count * sizeof(Entry));
    if (!begin) return {};
    return {reinterpret_cast<const Entry*>(begin), count};
  }

  std::span<const uint8_t> bytes_;
};

class CodeObject {
 public:
  CodeObject(Agent& agent, std::span<const uint8_t> bytes) : agent_(agent), image_(bytes) {}
  CodeObject(const CodeObject&) = delete;
  CodeObject& operator=(const CodeObject&) = delete;

  ~CodeObject() {
    if (!base_) return;
    address_space::give_back(base_, size_);
    agent_.discharge(size_);
  }

  hsa_status_t load(std::map<std::string, Symbol>& symbols) {
    if (!image_.header()) return HSA_STATUS_ERROR_INVALID_CODE_OBJECT;
    const hsa_status_t status = map_segments();
    if (status != HSA_STATUS_SUCCESS) return status;
    for (const Elf64_Shdr& section : image_.sections()) {
      if (section.sh_type == SHT_DYNSYM) define_symbols(section, symbols);
      if (section.sh_type == SHT_RELA && !relocate(section)) {
        return HSA_STATUS_ERROR_INVALID_CODE_OBJECT;
      }
    }
    return HSA_STATUS_SUCCESS;
  }

 private:
  hsa_status_t map_segments() {
    size_t end = 0;
    for (const Elf64_Phdr& segment : image_.segments()) {
      if (segment.p_type == PT_LOAD) end = std::max(end, segment.p_vaddr + segment.p_memsz);
    }
    if (end == 0) return HSA_STATUS_ERROR_INVALID_CODE_OBJECT;
    size_ = align_up(end, page_size);
    if (!agent_.charge(size_)) return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    base_ = static_cast<uint8_t*>(address_space::take(size_, page_size));
    if (!base_ || mprotect(base_, size_, PROT_READ | PROT_WRITE) != 0) {
      return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    }
    for (const Elf64_Phdr& segment : image_.segments()) {
      if (segment.p_type != PT_LOAD) continue;
      const uint8_t* bytes = image_.data(segment.p_offset, segment.p_filesz);
      if (!bytes || segment.p_filesz > segment.p_memsz) return HSA_STATUS_ERROR_INVALID_CODE_OBJECT;
      std::memcpy(base_ + segment.p_vaddr, bytes, segment.p_filesz);
    }
    return HSA_STATUS_SUCCESS;
  }

  void define_symbols(const Elf64_Shdr& section, std::map<std::string, Symbol>& symbols) {
    const auto sections = image_.sections();
    if (section.sh_link >= sections.size()) return;
    for (const Elf64_Sym& entry : image_.entries<Elf64_Sym>(section)) {
      const unsigned type = ELF64_ST_TYPE(entry.st_info);
      if (entry.st_shndx == SHN_UNDEF || entry.st_value >= size_) continue;
      if (type != STT_OBJECT && type != symbol_type_kernel) continue;
      const std::string_view name = image_.text(sections[section.sh_link], entry.st_name);
      define(name, entry, symbols);
    }
  }

  void define(std::string_view name, const Elf64_Sym& entry,
              std::map<std::string, Symbol>& symbols) {
    uint8_t* address = base_ + entry.st_value;
    std::unique_ptr<Kernel> kernel;
    if (name.ends_with(descriptor_suffix)) {
      const auto kernel_name = name.substr(0, name.size() - descriptor_suffix.size());
      kernel = std::make_unique<Kernel>(std::string(kernel_name),
                                        reinterpret_cast<const KernelDescriptor*>(address));
      const std::unique_lock lock(kernels_mutex);
      kernels_by_object()[reinterpret_cast<uint64_t>(address)] = kernel.get();
    }
    symbols[std::string(name)] = {std::string(name), &agent_,
                                  address,           entry.st_size,
                                  std::move(kernel), is_writable(entry.st_value)};
  }

  bool is_writable(uint64_t address) const {
    for (const Elf64_Phdr& segment : image_.segments()) {
      if (segment.p_type != PT_LOAD || address - segment.p_vaddr >= segment.p_memsz) continue;
      return segment.p_flags & PF_W;
    }
    return false;
  }

  bool relocate(const Elf64_Shdr& section) {
    const auto sections = image_.sections();
    if (section.sh_link >= sections.size()) return false;
    const auto symbols = image_.entries<Elf64_Sym>(sections[section.sh_link]);
    for (const Elf64_Rela& entry : image_.entries<Elf64_Rela>(section)) {
      if (size_ < sizeof(uint64_t) || entry.r_offset > size_ - sizeof(uint64_t)) return false;
      uint64_t value = reinterpret_cast<uint64_t>(base_) + static_cast<uint64_t>(entry.r_addend);
      const uint64_t type = ELF64_R_TYPE(entry.r_info);
      if (type == relocation_abs64) {
        const uint64_t symbol = ELF64_R_SYM(entry.r_info);
        if (symbol >= symbols.size() || symbols[symbol].st_shndx == SHN_UNDEF) continue;
        value += symbols[symbol].st_value;
      } else if (type != relocation_relative64) {
        continue;
      }
      std::memcpy(base_ + entry.r_offset, &value, sizeof value);
    }
    return true;
  }

  Agent& agent_;
  const Image image_;
  uint8_t* base_ = nullptr;
  size_t size_ = 0;
};

struct Executable {
  ~Executable() {
    const std::unique_lock lock(kernels_mutex);
    for (const auto& [name, symbol] : symbols) {
      if (symbol.kernel) kernels_by_object().erase(reinterpret_cast<uint64_t>(symbol.address));
    }
  }

  std::vector<std::unique_ptr<CodeObject>> objects;
  std::map<std::string, Symbol> symbols;
  bool frozen = false;
};

Executable* from(hsa_executable_t handle) { return reinterpret_cast<Executable*>(handle.handle); }

hsa_status_t kernel_info(const Symbol& symbol, uint32_t attribute, void* value) {
  const KernelDescriptor& descriptor = symbol.kernel->descriptor();
  switch (attribute) {
    case HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT:
      return answer(value, reinterpret_cast<uint64_t>(symbol.address));
    case HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_KERNARG_SEGMENT_SIZE:
      return answer(value, descriptor.kernarg_size);
    case HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_KERNARG_SEGMENT_ALIGNMENT:
      return answer(value, uint32_t{16});
    case HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_GROUP_SEGMENT_SIZE:
      return answer(value, descriptor.group_segment_size);
    case HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_PRIVATE_SEGMENT_SIZE:
      return answer(value, descriptor.private_segment_size);
    case HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_DYNAMIC_CALLSTACK:
      return answer(value, false);
    case HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_CALL_CONVENTION:
      return answer(value, uint32_t{0});
    default:
      return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
}

hsa_status_t variable_info(const Symbol& symbol, uint32_t attribute, void* value) {
  switch (attribute) {
    case HSA_EXECUTABLE_SYMBOL_INFO_VARIABLE_ADDRESS:
      return answer(value, reinterpret_cast<uint64_t>(symbol.address));
    case HSA_EXECUTABLE_SYMBOL_INFO_VARIABLE_SIZE:
      return answer(value, static_cast<uint32_t>(symbol.size));
    case HSA_EXECUTABLE_SYMBOL_INFO_VARIABLE_ALIGNMENT:
      return answer(value, uint32_t{16});
    case HSA_EXECUTABLE_SYMBOL_INFO_VARIABLE_IS_CONST:
      return answer(value, !symbol.writable);
    case HSA_EXECUTABLE_SYMBOL_INFO_VARIABLE_ALLOCATION:
      return answer(value, HSA_VARIABLE_ALLOCATION_AGENT);
    case HSA_EXECUTABLE_SYMBOL_INFO_VARIABLE_SEGMENT:
      return answer(value, HSA_VARIABLE_SEGMENT_GLOBAL);
    default:
      return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
}

hsa_status_t symbol_info(const Symbol& symbol, uint32_t attribute, void* value) {
  switch (attribute) {
    case HSA_EXECUTABLE_SYMBOL_INFO_TYPE:
      return answer(value, symbol.kernel ? HSA_SYMBOL_KIND_KERNEL : HSA_SYMBOL_KIND_VARIABLE);
    case HSA_EXECUTABLE_SYMBOL_INFO_NAME_LENGTH:
      return answer(value, static_cast<uint32_t>(symbol.name.size()));
    case HSA_EXECUTABLE_SYMBOL_INFO_NAME:
      std::memcpy(value, symbol.name.data(), symbol.name.size());
      return HSA_STATUS_SUCCESS;
    case HSA_EXECUTABLE_SYMBOL_INFO_AGENT:
      return answer(value, to_handle<hsa_agent_t>(symbol.agent));
    case HSA_EXECUTABLE_SYMBOL_INFO_LINKAGE:
      return answer(value, HSA_SYMBOL_LINKAGE_PROGRAM);
    case HSA_EXECUTABLE_SYMBOL_INFO_IS_DEFINITION:
      return answer(value, true);
    default:
      return symbol.kernel ? kernel_info(symbol, attribute, value)
                           : variable_info(symbol, attribute, value);
  }
}

}  // namespace

Kernel* find_kernel(uint64_t kernel_object) {
  const std::shared_lock lock(kernels_mutex);
  const auto found = kernels_by_object().find(kernel_object);
  return found == kernels_by_object().end() ? nullptr : found->second;
}

}  // namespace softagent

using softagent::Executable;
using softagent::Reader;
using softagent::Symbol;

hsa_status_t hsa_code_object_reader_create_from_memory(const void* code_object, size_t size,
                                                       hsa_code_object_reader_t* reader) {
  SOFTAGENT_CALL_WITH("size=%zu", size);
  if (!code_object || size == 0 || !reader) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  *reader = softagent::to_handle<hsa_code_object_reader_t>(
      new Reader{{static_cast<const uint8_t*>(code_object), size}});
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_code_object_reader_destroy(hsa_code_object_reader_t reader) {
  SOFTAGENT_CALL();
  delete reinterpret_cast<Reader*>(reader.handle);
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_executable_create_alt(hsa_profile_t, hsa_default_float_rounding_mode_t,
                                       const char*, hsa_executable_t* executable) {
  SOFTAGENT_CALL();
  if (!executable) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  *executable = softagent::to_handle<hsa_executable_t>(new Executable);
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_executable_destroy(hsa_executable_t executable) {
  SOFTAGENT_CALL();
  delete softagent::from(executable);
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_executable_load_agent_code_object(hsa_executable_t handle, hsa_agent_t agent,
                                                   hsa_code_object_reader_t reader, const char*,
                                                   hsa_loaded_code_object_t* loaded) {
  SOFTAGENT_CALL();
  Executable* executable = softagent::from(handle);
  if (!executable) return HSA_STATUS_ERROR_INVALID_EXECUTABLE;
  if (executable->frozen) return HSA_STATUS_ERROR_FROZEN_EXECUTABLE;
  softagent::Agent* target = softagent::find_agent(agent);
  if (!target) return HSA_STATUS_ERROR_INVALID_AGENT;
  const auto image = reinterpret_cast<const Reader*>(reader.handle)->image;
  auto object = std::make_unique<softagent::CodeObject>(*target, image);
  const hsa_status_t status = object->load(executable->symbols);
  if (loaded) *loaded = softagent::to_handle<hsa_loaded_code_object_t>(object.get());
  executable->objects.push_back(std::move(object));
  return status;
}

// Undefined variables of a code object are not supported, so that a definition changes nothing.
hsa_status_t hsa_executable_agent_global_variable_define(hsa_executable_t, hsa_agent_t,
                                                         const char* name, void*) {
  SOFTAGENT_CALL_WITH("name=%s", name);
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_executable_freeze(hsa_executable_t executable, const char*) {
  SOFTAGENT_CALL();
  softagent::from(executable)->frozen = true;
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_executable_get_symbol_by_name(hsa_executable_t executable, const char* name,
                                               const hsa_agent_t*,
                                               hsa_executable_symbol_t* symbol) {
  SOFTAGENT_CALL_WITH("name=%s", name);
  const auto& symbols = softagent::from(executable)->symbols;
  const auto found = symbols.find(name);
  if (found == symbols.end()) return HSA_STATUS_ERROR_INVALID_SYMBOL_NAME;
  *symbol = softagent::to_handle<hsa_executable_symbol_t>(&found->second);
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_executable_symbol_get_info(hsa_executable_symbol_t symbol,
                                            hsa_executable_symbol_info_t attribute, void* value) {
  SOFTAGENT_CALL_WITH("attribute=%u", static_cast<unsigned>(attribute));
  if (!value) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  return softagent::symbol_info(*reinterpret_cast<const Symbol*>(symbol.handle), attribute, value);
}

hsa_status_t hsa_executable_iterate_symbols(
    hsa_executable_t executable,
    hsa_status_t (*callback)(hsa_executable_t, hsa_executable_symbol_t, void*), void* data) {
  SOFTAGENT_CALL();
  for (const auto& [name, symbol] : softagent::from(executable)->symbols) {
    const hsa_status_t status =
        callback(executable, softagent::to_handle<hsa_executable_symbol_t>(&symbol), data);
    if (status != HSA_STATUS_SUCCESS) return status;
  }
  return HSA_STATUS_SUCCESS;
}
