// Threads of the agent: they live as long as the process unless joined, and leave signals to the
// program's own threads.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <thread>
#include <utility>

namespace softagent {

template <class Body>
std::thread start_joinable_thread(const char* name, Body body) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // inherited by the new thread
  std::thread thread([body = std::move(body)]() mutable { body(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(thread.native_handle(), name);
  return thread;
}

template <class Body>
void start_thread(const char* name, Body body) {
  start_joinable_thread(name, std::move(body)).detach();
}

}  // namespace softagent
