// coordination_bench: one row of the comparison against one server. Prints a line of JSON.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "lockstep/platform/tls/calls.h"
#include "lockstep/platform/tls/openssl.h"
#include "peer.h"

namespace lockstep::bench {

namespace {

using Clock = std::chrono::steady_clock;

double MicrosecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

struct Figures {
  std::vector<double> us;  // one for each operation or round
  double total_us = 0;     // from the first question to the last answer
};

double Quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(q * static_cast<double>(values.size() - 1))];
}

void Print(const std::string& row, size_t clients, const Figures& figures) {
  std::printf(
      "{\"row\": \"%s\", \"clients\": %zu, \"operations\": %zu, \"p50_us\": %.2f, "
      "\"p99_us\": %.2f, \"max_us\": %.2f, \"per_second\": %.1f}\n",
      row.c_str(), clients, figures.us.size(), Quantile(figures.us, 0.5),
      Quantile(figures.us, 0.99), Quantile(figures.us, 1.0),
      1e6 * static_cast<double>(figures.us.size()) / figures.total_us);
}

// Each client has one operation under way, and begins the next when it is answered.
Figures ClosedLoop(Peer& peer, size_t clients, size_t each,
                   const std::function<void(size_t client, size_t i, Peer::Done)>& operation) {
  std::vector<std::vector<double>> times(clients);
  std::vector<std::function<void(size_t)>> next(clients);
  std::atomic<size_t> open = clients;
  const Clock::time_point begin = Clock::now();
  for (size_t client = 0; client < clients; ++client) {
    next[client] = [&, client](size_t i) {
      const Clock::time_point asked = Clock::now();
      operation(client, i, [&, client, i, asked](std::string_view) {
        times[client].push_back(MicrosecondsSince(asked));
        if (i + 1 < each) return next[client](i + 1);
        if (--open == 0) peer.Stop();
      });
    };
  }
  for (size_t client = 0; client < clients; ++client) next[client](0);
  peer.Run();
  Figures figures{.total_us = MicrosecondsSince(begin)};
  for (const std::vector<double>& one : times) {
    figures.us.insert(figures.us.end(), one.begin(), one.end());
  }
  return figures;
}

std::string Key(size_t client, size_t i) { return absl::StrCat("bench/", client, "/", i % 1000); }

// Something else for a while, by which the connections of a peer without threads are driven; then
// `after`.
void Settle(Peer& peer, size_t client, double settle_us, std::function<void()> after) {
  const auto pass = std::make_shared<std::function<void()>>();
  *pass = [&peer, client, settle_us, pass, begin = Clock::now(), after = std::move(after)] {
    if (MicrosecondsSince(begin) >= settle_us) return after();
    peer.Set(client, "bench/other", "x", [pass](std::string_view) { (*pass)(); });
  };
  (*pass)();
}

// From the last arrival to the last release, round by round. Whether all others have arrived cannot
// be asked everywhere, so that the last comes a while after them; were that too soon, the figure
// would be larger, for every peer alike.
Figures Barriers(Peer& peer, size_t clients, size_t rounds) {
  constexpr double kSettleUs = 20'000;
  Figures figures;
  const Clock::time_point begin = Clock::now();
  for (size_t round = 0; round < rounds; ++round) {
    std::atomic<size_t> open = clients;
    Clock::time_point last;
    const auto arrive = [&](size_t client) {
      peer.Barrier(client, "bench/barrier", [&](std::string_view) {
        if (--open == 0) peer.Stop();
      });
    };
    for (size_t client = 0; client + 1 < clients; ++client) arrive(client);
    Settle(peer, clients - 1, kSettleUs, [&] {
      last = Clock::now();
      arrive(clients - 1);
    });
    peer.Run();
    figures.us.push_back(MicrosecondsSince(last));
  }
  figures.total_us = MicrosecondsSince(begin);
  return figures;
}

// All but the first wait for a key; from the set until the last of them has it. The set comes a
// while after the last question, as in `Barriers`.
Figures Releases(Peer& peer, size_t clients, size_t rounds, size_t bytes, double settle_us) {
  Figures figures;
  const std::string value(bytes, 'v');
  const Clock::time_point begin = Clock::now();
  for (size_t round = 0; round < rounds; ++round) {
    const std::string key = absl::StrCat("bench/wait/", round);
    std::atomic<size_t> open = clients;  // the waiters, and the set itself
    Clock::time_point set;
    std::atomic<double> took = 0;
    const auto one_ended = [&] {
      if (--open == 0) peer.Stop();
    };
    for (size_t client = 1; client < clients; ++client) {
      peer.Wait(client, key, [&](std::string_view got) {
        if (got.size() != bytes) Die("a waiter got something else");
        took = std::max(took.load(), MicrosecondsSince(set));
        one_ended();
      });
    }
    Settle(peer, 0, settle_us, [&] {
      set = Clock::now();
      peer.Set(0, key, value, [&](std::string_view) { one_ended(); });
    });
    peer.Run();
    figures.us.push_back(took);
  }
  figures.total_us = MicrosecondsSince(begin);
  return figures;
}

// From a write until the last of all watchers has heard of it.
Figures FanOut(Peer& peer, size_t clients, size_t rounds) {
  std::atomic<size_t> open = clients - 1;
  const auto one_ended = [&](std::string_view) {
    if (--open == 0) peer.Stop();
  };
  for (size_t client = 1; client < clients; ++client) {
    peer.Watch(client, "bench/watched", one_ended, one_ended);
  }
  peer.Run();
  Figures figures;
  const Clock::time_point begin = Clock::now();
  for (size_t round = 0; round < rounds; ++round) {
    open = clients;
    const Clock::time_point asked = Clock::now();
    peer.Set(0, "bench/watched", absl::StrCat("value ", round), one_ended);
    peer.Run();
    figures.us.push_back(MicrosecondsSince(asked));
  }
  figures.total_us = MicrosecondsSince(begin);
  return figures;
}

// Parks so many waits and says so; ends when its input does.
void Park(Peer& peer, size_t clients, size_t waits) {
  const auto settle = [&] {
    peer.Set(0, "bench/other", "x", [&](std::string_view) { peer.Stop(); });
    peer.Run();
  };
  settle();
  std::puts("{\"connected\": true}");
  std::fflush(stdout);
  if (std::getchar() == EOF) return;
  for (size_t i = 0; i < waits; ++i) {
    peer.Wait(i % clients, absl::StrCat("bench/parked/", i), [](std::string_view) {});
  }
  // Two more turns behind them on the same connections.
  for (size_t client = 0; client < clients; ++client) {
    peer.Set(client, "bench/other", "x", [&](std::string_view) { peer.Stop(); });
    peer.Run();
  }
  std::puts("{\"parked\": true}");
  std::fflush(stdout);
  static_cast<void>(std::getchar());
}

// Says when all are connected, and asks something of each when a line comes, by which time the
// server has been killed; says when the last has its answer, of the server that was started anew,
// by the clock that Python calls `time.monotonic_ns`.
void Reconnect(Peer& peer, size_t clients) {
  std::puts("{\"connected\": true}");
  std::fflush(stdout);
  if (std::getchar() == EOF) return;
  std::atomic<size_t> open = clients;
  for (size_t client = 0; client < clients; ++client) {
    peer.Set(client, absl::StrCat("bench/again/", client), "x", [&](std::string_view) {
      if (--open == 0) peer.Stop();
    });
  }
  peer.Run();
  const auto now = std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::steady_clock::now().time_since_epoch());
  std::printf("{\"answered_at_ns\": %lld}\n", static_cast<long long>(now.count()));
}

std::unique_ptr<Peer> Make(const std::string& kind, const std::string& address) {
  if (kind == "lockstep") return MakeLockstepPeer(address, true);
  if (kind == "tcpstore") return MakeStorePeer(address);
  if (kind == "toy") return MakeToyPeer(address);
  if (kind == "tcp-echo") return MakeEchoPeer(address);
  if (kind == "grpc-echo") return MakeGrpcEchoPeer(address);
  if (kind == "etcd") return MakeEtcdPeer(address);
  if (kind == "jaxlib") return MakeJaxlibPeer(address);
  Die("no such peer: " + kind);
}

int Main(int argc, char** argv) {
  CLI::App app("Measures one row against one server.");
  std::string kind;
  std::string address;
  std::string row;
  size_t clients = 1;
  size_t count = 1000;
  size_t bytes = 64;
  app.add_option("--peer", kind, "lockstep, tcpstore, etcd, jaxlib, toy, tcp-echo or grpc-echo")
      ->required();
  app.add_option("--address", address, "HOST:PORT, or for lockstep a join string: with TLS")
      ->required();
  app.add_option("--row", row, "set, get, swap, barrier, wait, fan-out, connect, reconnect or park")
      ->required();
  app.add_option("--clients", clients);
  app.add_option("--count", count, "operations of each client, or rounds, or waits");
  app.add_option("--bytes", bytes, "of a value");
  CLI11_PARSE(app, argc, argv);
  tls::InstallSecureCalls([] { return &tls::LinkedOpenSsl(); });
  const std::unique_ptr<Peer> peer = Make(kind, address);
  const Clock::time_point begin = Clock::now();
  peer->Connect(clients);
  const std::string value(bytes, 'v');
  const auto set = [&](size_t client, size_t i, Peer::Done done) {
    peer->Set(client, Key(client, i), value, std::move(done));
  };
  Figures figures;
  if (row == "connect") {
    figures.total_us = MicrosecondsSince(begin);
    figures.us.push_back(figures.total_us);
  } else if (row == "set") {
    ClosedLoop(*peer, clients, std::min<size_t>(count, 20), set);
    figures = ClosedLoop(*peer, clients, count, set);
  } else if (row == "get") {
    ClosedLoop(*peer, clients, std::min<size_t>(count, 1000), set);
    figures = ClosedLoop(*peer, clients, count, [&](size_t client, size_t i, Peer::Done done) {
      peer->Get(client, Key(client, i), std::move(done));
    });
  } else if (row == "swap") {
    figures = ClosedLoop(*peer, clients, count, [&](size_t client, size_t i, Peer::Done done) {
      peer->Swap(client, absl::StrCat("bench/swap/", client),
                 i == 0 ? "" : absl::StrCat("v", i - 1), absl::StrCat("v", i), std::move(done));
    });
  } else if (row == "barrier") {
    Barriers(*peer, clients, std::min<size_t>(count, 5));
    figures = Barriers(*peer, clients, count);
  } else if (row == "wait") {
    figures = Releases(*peer, clients, count, bytes, clients > 8 ? 200'000 : 2'000);
  } else if (row == "fan-out") {
    figures = FanOut(*peer, clients, count);
  } else if (row == "reconnect") {
    Reconnect(*peer, clients);
    std::fflush(stdout);
    std::_Exit(0);
  } else if (row == "park") {
    Park(*peer, clients, count);
    std::_Exit(0);
  } else {
    Die("no such row: " + row);
  }
  Print(row, clients, figures);
  std::fflush(stdout);
  std::_Exit(0);  // servers and clients are thrown away; leaving in order is not what is measured
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) { return lockstep::bench::Main(argc, argv); }
