// Running part of a test in a child process: for what changes the process, such as its log level,
// its environment or stderr.
#pragma once

#include <string>
#include <vector>

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct ChildResult {
  std::vector<std::string> writes;  // to stderr, one by one
  int status = 0;                   // as waitpid gives it

  std::string err() const {
    std::string all;
    for (const std::string& piece : writes) all += piece;
    return all;
  }
  bool exited_with(int code) const { return WIFEXITED(status) && WEXITSTATUS(status) == code; }
};

// The exit code is what `body` returns.
template <class Body>
ChildResult in_child(Body body) {
  // Unlike a pipe, a socket of packets shows how many writes there were.
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0) throw "no socket pair";
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    _exit(body());
  }
  close(ends[1]);
  ChildResult result;
  std::string buffer(1 << 16, '\0');
  for (;;) {
    const ssize_t size = recv(ends[0], buffer.data(), buffer.size(), 0);
    if (size <= 0) break;
    result.writes.push_back(buffer.substr(0, static_cast<std::size_t>(size)));
  }
  close(ends[0]);
  waitpid(child, &result.status, 0);
  return result;
}
