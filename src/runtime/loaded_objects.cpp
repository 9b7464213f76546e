#include "runtime/loaded_objects.h"

#include <dlfcn.h>

#include <cstring>

namespace hipgraft::runtime {
namespace {

std::uint32_t gnu_hash_of(const char* name) {
  std::uint32_t hash = 5381;
  for (; *name != '\0'; ++name) hash = hash * 33 + static_cast<unsigned char>(*name);
  return hash;
}

constexpr ElfW(Half) kHiddenVersion = 0x8000;

}  // namespace

LoadedObject::LoadedObject(const link_map* map) : map_(map) {
  std::size_t soname = 0;
  for (const ElfW(Dyn)* entry = map->l_ld; entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
    const std::uintptr_t value = entry->d_un.d_ptr;
    switch (entry->d_tag) {
      case DT_SYMTAB:
        symbols_ = at<ElfW(Sym)>(value);
        break;
      case DT_STRTAB:
        strings_ = at<char>(value);
        break;
      case DT_STRSZ:
        strings_size_ = value;
        break;
      case DT_GNU_HASH:
        gnu_hash_ = at<std::uint32_t>(value);
        break;
      case DT_VERSYM:
        versions_ = at<ElfW(Half)>(value);
        break;
      case DT_JMPREL:
        plt_relocations_ = at<ElfW(Rela)>(value);
        break;
      case DT_PLTRELSZ:
        plt_count_ = value / sizeof(ElfW(Rela));
        break;
      case DT_RELA:
        relocations_ = at<ElfW(Rela)>(value);
        break;
      case DT_RELASZ:
        relocation_count_ = value / sizeof(ElfW(Rela));
        break;
      case DT_SONAME:
        soname = value;
        break;
      default:
        break;
    }
  }
  if (soname != 0 && strings_ != nullptr) soname_ = strings_ + soname;
}

// glibc relocates the pointers of most dynamic sections in place, but not those of the vDSO.
template <class Value>
const Value* LoadedObject::at(std::uintptr_t address) const {
  return reinterpret_cast<const Value*>(address < map_->l_addr ? map_->l_addr + address : address);
}

const char* LoadedObject::file_name() const {
  const char* slash = std::strrchr(path(), '/');
  return slash != nullptr ? slash + 1 : path();
}

bool LoadedObject::starts_with(const char* text, const char* prefix) {
  return std::strncmp(text, prefix, std::strlen(prefix)) == 0;
}

bool LoadedObject::mentions(const char* text) const {
  return memmem(strings_, strings_size_, text, std::strlen(text)) != nullptr;
}

void* LoadedObject::defined(const char* symbol) const {
  if (gnu_hash_ == nullptr || symbols_ == nullptr || strings_ == nullptr) return nullptr;
  const std::uint32_t buckets = gnu_hash_[0];
  const std::uint32_t first = gnu_hash_[1];
  const std::uint32_t bloom_words = gnu_hash_[2];
  const std::uint32_t* bucket =
      gnu_hash_ + 4 + bloom_words * (sizeof(ElfW(Addr)) / sizeof(std::uint32_t));
  const std::uint32_t* chain = bucket + buckets;
  if (buckets == 0) return nullptr;
  const std::uint32_t hash = gnu_hash_of(symbol);
  std::uint32_t index = bucket[hash % buckets];
  if (index < first) return nullptr;
  for (;; ++index) {
    const std::uint32_t link = chain[index - first];
    const bool hidden = versions_ != nullptr && (versions_[index] & kHiddenVersion) != 0;
    if ((link | 1U) == (hash | 1U) && !hidden && symbols_[index].st_shndx != SHN_UNDEF &&
        std::strcmp(name_of(index), symbol) == 0) {
      return reinterpret_cast<void*>(map_->l_addr + symbols_[index].st_value);
    }
    if ((link & 1U) != 0) return nullptr;
  }
}

std::vector<const char*> LoadedObject::needed() const {
  std::vector<const char*> names;
  for (const ElfW(Dyn)* entry = map_->l_ld; entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_NEEDED) names.push_back(strings_ + entry->d_un.d_val);
  }
  return names;
}

std::vector<LoadedObject> loaded_objects() {
  std::vector<LoadedObject> objects;
  for (const link_map* map = _r_debug.r_map; map != nullptr; map = map->l_next) {
    objects.emplace_back(map);
  }
  return objects;
}

std::uint64_t objects_changed() {
  std::uint64_t changes = 1;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* out) {
        *static_cast<std::uint64_t*>(out) += info->dlpi_adds + info->dlpi_subs;
        return 1;
      },
      &changes);
  return changes;
}

const link_map* object_around(const void* address) {
  Dl_info info;
  link_map* map = nullptr;
  if (dladdr1(address, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0) return nullptr;
  return map;
}

}  // namespace hipgraft::runtime
