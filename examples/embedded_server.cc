// A Lockstep server inside one's own program, and two members of its job beside it, each on a
// thread as if it were a process elsewhere. They meet at a barrier and read what the other brought.
#include <cstdio>
#include <string>
#include <thread>

#include "lockstep/client/member.h"
#include "lockstep/server/server.h"

namespace {

// What one member does; 0 is success.
int RunMember(const std::string& address, int index) {
  auto me = lockstep::Join({.address = address, .job = "digits", .index = index});
  if (!me.ok()) {
    std::fprintf(stderr, "%s\n", me.status().ToString().c_str());
    return 1;
  }
  auto ports = (*me)->Gather("port", std::to_string(4711 + index), {.timeout = absl::Minutes(1)});
  if (!ports.ok()) {
    std::fprintf(stderr, "%s\n", ports.status().ToString().c_str());
    return 1;
  }
  std::printf("%s: the ports are %s and %s\n", (*me)->name().c_str(), (*ports)[0].c_str(),
              (*ports)[1].c_str());
  return (*me)->Leave().ok() ? 0 : 1;
}

}  // namespace

int main() {
  lockstep::server::ServerOptions options;
  options.listen = {.host = "127.0.0.1", .port = 0};
  options.jobs.push_back({.name = "digits", .size = 2});
  auto server = lockstep::server::Server::Start(options);
  if (!server.ok()) {
    std::fprintf(stderr, "%s\n", server.status().ToString().c_str());
    return 1;
  }
  const std::string address = (*server)->listen_address();
  int first = 1;
  std::thread elsewhere([&] { first = RunMember(address, 0); });
  const int second = RunMember(address, 1);
  elsewhere.join();
  (*server)->Stop();
  return first + second;
}
