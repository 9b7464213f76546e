// A kernel that touches what it may not touch says its name, and the process dies.
#include <signal.h>
#include <sys/wait.h>

#include "selftest.h"

namespace {

constexpr size_t bytes = 4096;

int* allocate() {
  int* memory = nullptr;
  HIP(hipMalloc(reinterpret_cast<void**>(&memory), bytes));
  return memory;
}

int* pointer_for(const std::string& role) {
  int* memory = allocate();
  if (role == "fault-freed") HIP(hipFree(memory));
  if (role == "fault-unknown") return reinterpret_cast<int*>(uintptr_t{0x4567890000});
  return memory;
}

bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

int fault(const std::string& role) {
  Stream stream;
  if (role == "fault-in-mix") {
    int* freed = allocate();
    HIP(hipFree(freed));
    launch(function("mix"), 1, 16, stream, allocate() + 16, freed, 16);
  } else {
    launch(function("add"), 1, 1, stream, pointer_for(role), 1, 1);
  }
  stream.sync();
  return 3;
}

TEST_CASE("a kernel may use its memory") { CHECK(WEXITSTATUS(run_child("fault-none")) == 3); }

TEST_CASE("a fault names kernel, queue and arguments") {
  const Child child = run_child_and_listen("fault-freed");
  REQUIRE(WIFSIGNALED(child.status));
  CHECK(WTERMSIG(child.status) == SIGABRT);
  CAPTURE(child.errors);
  CHECK(contains(child.errors, "softagent: SIGSEGV at 0x"));
  CHECK(contains(child.errors, "in kernel add, queue "));
  CHECK(contains(child.errors, "(freed gpu0 0x"));
  CHECK(contains(child.errors, "+0x0 of 4096) 0x100000001"));
}

TEST_CASE("a fault tells live from freed and unknown memory") {
  const Child mixed = run_child_and_listen("fault-in-mix");
  CAPTURE(mixed.errors);
  CHECK(contains(mixed.errors, "in kernel mix"));
  CHECK(contains(mixed.errors, "(gpu0 0x"));
  CHECK(contains(mixed.errors, "+0x40 of 4096) 0x"));
  CHECK(contains(mixed.errors, "(freed gpu0 0x"));
  const Child unknown = run_child_and_listen("fault-unknown");
  CAPTURE(unknown.errors);
  CHECK(contains(unknown.errors, "0x4567890000 (unknown)"));
}

TEST_CASE("a fault can end the process by its own signal") {
  const Child child = run_child_and_listen("fault-freed", {"SOFTAGENT_FAULT=signal"});
  REQUIRE(WIFSIGNALED(child.status));
  CHECK(WTERMSIG(child.status) == SIGSEGV);
  CHECK(contains(child.errors, "in kernel add"));
}
