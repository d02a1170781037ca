// scale_bench: a job of many ranks against one server, from its registration to its end. Prints a
// line of JSON for each figure, and goes on when it reads a line, so that the server's memory can
// be read in between.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "bench/coordination/native/peer.h"
#include "bench/scale/agents_peer.h"
#include "lockstep/testing/received_bytes.h"

namespace lockstep::bench {
namespace {

using Clock = std::chrono::steady_clock;

struct Settings {
  std::string kind;
  std::string address;
  std::string job = "scale";
  size_t ranks = 64;
  size_t ranks_per_host = 8;
  size_t barriers = 16;
  size_t card_bytes = 4 << 10;
  size_t value_bytes = 256 << 10;
  bool death = false;
  bool fan_out = true;
};

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// That have come over the connections of this program to the server, as the kernel counts them.
uint64_t BytesFromServer(const Settings& settings) {
  const int port = std::atoi(settings.address.substr(settings.address.rfind(':') + 1).c_str());
  return testing::BytesReceivedFrom(static_cast<uint16_t>(port));
}

// And goes on when it is told to.
void Say(const Settings& settings, const std::string& what, double seconds) {
  std::printf("{\"row\": \"%s\", \"seconds\": %.6f, \"server_bytes\": %llu}\n", what.c_str(),
              seconds, static_cast<unsigned long long>(BytesFromServer(settings)));
  std::fflush(stdout);
  if (std::getchar() == EOF) std::_Exit(1);
}

// Until the ranks' last calls have likely come to the server, which cannot be asked everywhere: as
// long as it took to make them, and a while. The last client works meanwhile, which drives a peer
// without threads.
void Settle(Peer& peer, size_t client, double seconds) {
  const Clock::time_point begin = Clock::now();
  while (SecondsSince(begin) < seconds) {
    peer.Set(client, "scale/other", "x", [&](std::string_view) { peer.Stop(); });
    peer.Run();
  }
}

double SettleSeconds(const Settings& settings) {
  return 0.2 + 30e-6 * static_cast<double>(settings.ranks);
}

// Seconds from the first arrival to the last release, when all come at once, and from the last
// arrival when that one comes late.
void Barriers(Peer& peer, const Settings& settings) {
  std::vector<double> at_once;
  std::vector<double> last_late;
  for (size_t round = 0; round < 2 * settings.barriers; ++round) {
    const bool late = round % 2 == 1;
    std::atomic<size_t> open = settings.ranks;
    const auto arrive = [&](size_t rank) {
      peer.Barrier(rank, "scale/barrier", [&](std::string_view) {
        if (--open == 0) peer.Stop();
      });
    };
    Clock::time_point from = Clock::now();
    for (size_t rank = 0; rank + 1 < settings.ranks; ++rank) arrive(rank);
    if (late) {
      Settle(peer, settings.ranks - 1, SettleSeconds(settings));
      from = Clock::now();
    }
    arrive(settings.ranks - 1);
    peer.Run();
    (late ? last_late : at_once).push_back(SecondsSince(from));
  }
  Say(settings, "barrier, all at once", Median(at_once));
  Say(settings, "barrier, after the last", Median(last_late));
}

std::string Card(size_t rank) { return absl::StrCat("scale/card/", rank); }

// As jaxlib exchanges its topology: each rank sets what it has, the first reads that of all.
void Exchange(Peer& peer, const Settings& settings) {
  constexpr size_t kReadsAtOnce = 64;
  const std::string card(settings.card_bytes, 'c');
  const Clock::time_point begin = Clock::now();
  std::atomic<size_t> open = settings.ranks;
  const auto one_ended = [&] {
    if (--open == 0) peer.Stop();
  };
  const size_t reads_at_once = settings.kind == "tcpstore" ? 1 : kReadsAtOnce;
  std::atomic<size_t> next = 0;
  std::function<void()> read = [&] {
    const size_t rank = next++;
    if (rank >= settings.ranks) return;
    peer.Wait(0, Card(rank), [&](std::string_view value) {
      if (value.size() != settings.card_bytes) Die("the first rank got another card");
      read();
      one_ended();
    });
  };
  std::atomic<size_t> unset = settings.ranks;
  for (size_t rank = 0; rank < settings.ranks; ++rank) {
    peer.Set(rank, Card(rank), card, [&](std::string_view) {
      if (--unset == 0) peer.Stop();
    });
  }
  // A client of the TCPStore has one question under way, so the first reads when it has set.
  peer.Run();
  for (size_t i = 0; i < reads_at_once; ++i) read();
  peer.Run();
  Say(settings, "exchange", SecondsSince(begin));
}

void Release(Peer& peer, const Settings& settings) {
  const std::string value(settings.value_bytes, 'v');
  std::atomic<size_t> open = settings.ranks;  // the waiters, and the set itself
  const auto one_ended = [&] {
    if (--open == 0) peer.Stop();
  };
  for (size_t rank = 1; rank < settings.ranks; ++rank) {
    peer.Wait(rank, "scale/value", [&](std::string_view got) {
      if (got.size() != settings.value_bytes) Die("a waiter got another value");
      one_ended();
    });
  }
  Settle(peer, 0, SettleSeconds(settings));
  Say(settings, "parked", 0);
  const Clock::time_point begin = Clock::now();
  peer.Set(0, "scale/value", value, [&](std::string_view) { one_ended(); });
  peer.Run();
  Say(settings, "release", SecondsSince(begin));
}

// From the failure of the first rank, or of the first `spared`, until all others have been told;
// `fail` makes it fail.
void Failure(Peer& peer, const Settings& settings, size_t spared, const std::string& row,
             const std::function<void()>& fail) {
  std::atomic<size_t> open = settings.ranks - spared;
  for (size_t rank = 0; rank < settings.ranks; ++rank) {
    peer.AwaitError(rank, [&, rank](std::string_view) {
      if (rank >= spared && --open == 0) peer.Stop();
    });
  }
  Settle(peer, settings.ranks - 1, SettleSeconds(settings));
  const Clock::time_point from = Clock::now();
  fail();
  peer.Run();
  Say(settings, row, SecondsSince(from));
}

std::unique_ptr<Peer> Make(const Settings& settings) {
  if (settings.kind == "jaxlib") return MakeJaxlibPeer(settings.address);
  if (settings.kind == "tcpstore") return MakeStorePeer(settings.address);
  Die("no such peer: " + settings.kind);
}

int Main(int argc, char** argv) {
  CLI::App app("Measures one large job against one server.");
  Settings settings;
  app.add_option("--peer", settings.kind, "agents, jaxlib or tcpstore")->required();
  app.add_option("--address", settings.address, "HOST:PORT")->required();
  app.add_option("--job", settings.job);
  app.add_option("--ranks", settings.ranks);
  app.add_option("--ranks-per-host", settings.ranks_per_host);
  app.add_option("--barriers", settings.barriers, "rounds of each kind");
  app.add_flag("--death", settings.death, "registers, and loses one agent; nothing else");
  app.add_flag("!--no-fan-out", settings.fan_out, "the server sends each agent all itself");
  CLI11_PARSE(app, argc, argv);
  std::unique_ptr<Agents> agents;
  std::unique_ptr<Peer> other;
  if (settings.kind == "agents") {
    agents = MakeAgents(settings.address, settings.job, settings.ranks_per_host, settings.fan_out);
  } else {
    other = Make(settings);
  }
  Peer& peer = agents ? *agents : *other;
  Say(settings, "start", 0);
  const Clock::time_point begin = Clock::now();
  peer.Connect(settings.ranks);
  Say(settings, "register", SecondsSince(begin));
  if (settings.death) {
    Failure(peer, settings, settings.ranks_per_host, "death", [&] { agents->KillAgentOf(0); });
  } else {
    Barriers(peer, settings);
    Exchange(peer, settings);
    Release(peer, settings);
    if (settings.kind != "tcpstore") {
      Failure(peer, settings, 1, "error", [&] { peer.Restart(0, [](std::string_view) {}); });
    }
  }
  std::fflush(stdout);
  std::_Exit(0);  // server and clients are thrown away
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) { return lockstep::bench::Main(argc, argv); }
