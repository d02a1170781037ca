// limits_bench: what the machine itself gives, in the shape of bench/rendezvous: copies within one
// process, and sockets between two with nothing around them. Prints one line of JSON.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <string>
#include <thread>

#include "CLI/CLI.hpp"
#include "bench/limits/measure.h"
#include "lockstep/rendezvous/transport/copy.h"
#include "lockstep/rendezvous/transport/spin.h"

namespace lockstep::bench {
namespace {

struct Settings {
  std::string mode = "memcpy";  // memcpy, streamed, unix, tcp
  size_t bytes = 8;
  int rounds = 1000;
  int ahead = 1;  // questions under way
  bool poll = false;
  bool huge = false;
  double pause_us = 0;
};

using Ask = std::array<std::byte, 16>;

// --- Sockets: who polls never sleeps ---

class Socket {
 public:
  Socket(int descriptor, bool poll) : descriptor_(descriptor), poll_(poll) {}

  void Send(std::span<const std::byte> bytes) const {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(descriptor_, bytes.data(), bytes.size(), flags());
      if (Moved(sent, "send")) bytes = bytes.subspan(static_cast<size_t>(sent));
    }
  }
  // Into place.
  void Receive(std::span<std::byte> bytes) const {
    while (!bytes.empty()) {
      const ssize_t came = ::recv(descriptor_, bytes.data(), bytes.size(), flags());
      if (came == 0) std::_Exit(1);  // the other died, and says why
      if (Moved(came, "recv")) bytes = bytes.subspan(static_cast<size_t>(came));
    }
  }

 private:
  int flags() const { return MSG_NOSIGNAL | (poll_ ? MSG_DONTWAIT : 0); }
  static bool Moved(ssize_t result, const char* what) {
    if (result >= 0) return true;
    if (errno != EAGAIN && errno != EINTR) DieOf(what);
    transport::CpuRelax();
    return false;
  }
  int descriptor_;
  bool poll_;
};

std::array<int, 2> TcpPair() {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
  socklen_t length = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener, generic, length) != 0 || ::listen(listener, 1) != 0 ||
      ::getsockname(listener, generic, &length) != 0) {
    DieOf("listen");
  }
  const int one = ::socket(AF_INET, SOCK_STREAM, 0);
  if (::connect(one, generic, length) != 0) DieOf("connect");
  const int other = ::accept(listener, nullptr, nullptr);
  if (other < 0) DieOf("accept");
  const int on = 1;
  for (const int each : {one, other}) {
    ::setsockopt(each, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  ::close(listener);
  return {one, other};
}

std::array<int, 2> Pair(const std::string& mode) {
  if (mode == "tcp") return TcpPair();
  std::array<int, 2> pair = {};
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()) != 0) DieOf("socketpair");
  return pair;
}

// Answers, and says at the end how long it paused each time.
void Produce(const Socket& socket, const Settings& settings) {
  SourcePool pool(settings.bytes, settings.huge);
  std::vector<double> pauses;
  Ask ask;
  for (int round = 0; round < settings.rounds; ++round) {
    socket.Receive(ask);
    if (settings.pause_us > 0) {
      const Clock::time_point begin = Clock::now();
      std::this_thread::sleep_for(std::chrono::duration<double, std::micro>(settings.pause_us));
      pauses.push_back(MicrosecondsSince(begin));
    }
    socket.Send(pool.Next());
  }
  socket.Receive(ask);
  socket.Send(std::as_bytes(std::span(pauses)));
}

Figures Consume(const Socket& socket, const Settings& settings, pid_t producer) {
  const Pages into(settings.bytes, settings.huge);
  const Ask ask = {};
  const auto cpu = [&] { return CpuSeconds(::getpid()) + CpuSeconds(producer); };
  Figures figures;
  Clock::time_point begin_all;
  const int warm = WarmRounds(settings.rounds);
  for (int i = 1; i < settings.ahead; ++i) socket.Send(ask);
  for (int round = 0; round < settings.rounds; ++round) {
    if (round == warm) {
      figures.cpu = -cpu();
      begin_all = Clock::now();
    }
    const Clock::time_point begin = Clock::now();
    if (round + settings.ahead <= settings.rounds) socket.Send(ask);
    socket.Receive(into.bytes());
    if (round >= warm) figures.us.push_back(MicrosecondsSince(begin));
  }
  figures.seconds = MicrosecondsSince(begin_all) * 1e-6;
  figures.cpu += cpu();
  socket.Send(ask);
  if (settings.pause_us > 0) {
    std::vector<double> pauses(static_cast<size_t>(settings.rounds));
    socket.Receive(std::as_writable_bytes(std::span(pauses)));
    for (size_t i = 0; i < figures.us.size(); ++i) {
      figures.us[i] -= pauses[i + static_cast<size_t>(warm)];
    }
  }
  return figures;
}

Figures Sockets(const Settings& settings) {
  const std::array<int, 2> pair = Pair(settings.mode);
  const pid_t producer = ::fork();
  if (producer < 0) DieOf("fork");
  const int mine = producer == 0 ? 1 : 0;
  ::close(pair[static_cast<size_t>(1 - mine)]);
  RunOn(mine);
  const Socket socket(pair[static_cast<size_t>(mine)], settings.poll);
  if (producer == 0) {
    Produce(socket, settings);
    std::_Exit(0);
  }
  Figures figures = Consume(socket, settings, producer);
  ::waitpid(producer, nullptr, 0);
  return figures;
}

// --- Copies ---

Figures Copies(const Settings& settings) {
  RunOn(0);
  SourcePool pool(settings.bytes, settings.huge);
  const Pages into(settings.bytes, settings.huge);
  Figures figures;
  Clock::time_point begin_all;
  const int warm = WarmRounds(settings.rounds);
  for (int round = 0; round < settings.rounds; ++round) {
    if (round == warm) {
      figures.cpu = -CpuSeconds(::getpid());
      begin_all = Clock::now();
    }
    const Clock::time_point begin = Clock::now();
    const std::byte* from = pool.Next().data();
    if (settings.mode == "memcpy") {
      std::memcpy(into.data(), from, settings.bytes);
    } else {
      transport::CopyBytes(into.data(), from, settings.bytes);
    }
    asm volatile("" : : "r"(into.data()) : "memory");
    if (round >= warm) figures.us.push_back(MicrosecondsSince(begin));
  }
  figures.seconds = MicrosecondsSince(begin_all) * 1e-6;
  figures.cpu += CpuSeconds(::getpid());
  return figures;
}

int Main(int argc, char** argv) {
  Settings settings;
  CLI::App app("What the machine itself gives; see bench/rendezvous/run.py");
  app.add_option("--mode", settings.mode)
      ->check(CLI::IsMember({"memcpy", "streamed", "unix", "tcp"}));
  app.add_option("--bytes", settings.bytes);
  app.add_option("--rounds", settings.rounds);
  app.add_option("--ahead", settings.ahead);
  app.add_option("--pause-us", settings.pause_us);
  app.add_flag("--poll", settings.poll);
  app.add_flag("--huge", settings.huge);
  CLI11_PARSE(app, argc, argv);
  const bool copies = settings.mode == "memcpy" || settings.mode == "streamed";
  Print(settings.bytes, copies ? Copies(settings) : Sockets(settings));
  return 0;
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) { return lockstep::bench::Main(argc, argv); }
