// What the dynamic linker has loaded, read from its own tables: who defines a symbol, who needs
// which library, where calls to a function lead. Looks nothing up by name: hipgraft's own dlsym
// rests on this.
#pragma once

#include <link.h>

#include <cstdint>
#include <vector>

namespace hipgraft::runtime {

// One loaded object's dynamic section.
class LoadedObject {
 public:
  explicit LoadedObject(const link_map* map);

  const char* path() const { return map_->l_name != nullptr ? map_->l_name : ""; }
  const char* file_name() const;
  const char* soname() const { return soname_; }  // "" if it has none
  std::uintptr_t base() const { return map_->l_addr; }
  const link_map* map() const { return map_; }

  // Address of a function that the object itself defines; null if it does not. The default version,
  // where there are several.
  void* defined(const char* symbol) const;
  std::vector<const char*> needed() const;

  // Calls `visit(symbol, slot)` for each place that the dynamic linker fills with the address of an
  // imported function whose name begins with `prefix`.
  template <class Visit>
  void for_each_import(const char* prefix, Visit visit) const;

 private:
  template <class Value = std::uintptr_t>
  const Value* at(std::uintptr_t address) const;
  bool mentions(const char* text) const;
  const char* name_of(std::uint32_t symbol) const { return strings_ + symbols_[symbol].st_name; }
  static bool starts_with(const char* text, const char* prefix);

  const link_map* map_;
  const ElfW(Sym) * symbols_ = nullptr;
  const char* strings_ = nullptr;
  std::size_t strings_size_ = 0;
  const std::uint32_t* gnu_hash_ = nullptr;
  const ElfW(Half) * versions_ = nullptr;
  const ElfW(Rela) * plt_relocations_ = nullptr;
  std::size_t plt_count_ = 0;
  const ElfW(Rela) * relocations_ = nullptr;
  std::size_t relocation_count_ = 0;
  const char* soname_ = "";
};

// In the order of the global scope, then of loading.
std::vector<LoadedObject> loaded_objects();

// Differs after every dlopen that loads something and every dlclose that unloads something. Cheap;
// never 0.
std::uint64_t objects_changed();

// The object around a code address; null if it is in none.
const link_map* object_around(const void* address);

template <class Visit>
void LoadedObject::for_each_import(const char* prefix, Visit visit) const {
  if (strings_ == nullptr || !mentions(prefix)) return;
  const auto visit_all = [&](const ElfW(Rela) * list, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      const auto symbol = static_cast<std::uint32_t>(ELF64_R_SYM(list[i].r_info));
      if (symbol == 0 || symbols_[symbol].st_shndx != SHN_UNDEF) continue;
      if (!starts_with(name_of(symbol), prefix)) continue;
      visit(name_of(symbol), reinterpret_cast<void* const*>(map_->l_addr + list[i].r_offset));
    }
  };
  visit_all(plt_relocations_, plt_count_);
  visit_all(relocations_, relocation_count_);
}

}  // namespace hipgraft::runtime
