// A network that fails: stands between who dials and who listens, and cuts, holds and delays.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <random>
#include <shared_mutex>
#include <string>
#include <thread>

namespace lockstep::testing {

// Forwards every connection to `target`, both ways, until its time has come: then both ends are
// closed at once, and what was on its way is lost, perhaps the half of a message.
//
// Threads: thread-safe; one thread for each connection, and one that accepts.
class FaultProxy {
 public:
  struct Options {
    // A connection is cut after so many bytes, drawn for each between these. 0: never.
    uint64_t cut_after_min = 0;
    uint64_t cut_after_max = 0;
    // Then it forwards faithfully.
    int cuts_max = 0;
    // Each piece waits for so long.
    std::chrono::microseconds delay = {};
    uint64_t seed = 1;
  };

  // `target`: HOST:PORT with a number for the host.
  FaultProxy(const std::string& target, const Options& options);
  ~FaultProxy();

  // HOST:PORT
  const std::string& address() const { return address_; }
  int cuts() const { return cuts_; }
  // That came through, of all connections.
  uint64_t bytes() const { return bytes_; }
  // Nothing comes through until it is released. What was being forwarded has come through when this
  // returns: what the ends say from then on is held.
  void Hold(bool hold);

 private:
  struct Pipe;

  void Accept();
  void Forward(Pipe& pipe);
  bool Held();
  // Unless it is held. False: the connection has ended.
  bool Move(int from, int to, uint64_t& left);
  uint64_t DrawCut();

  const Options options_;
  uint16_t target_port_ = 0;
  std::string address_;
  int listener_ = -1;
  std::atomic<bool> stops_ = false;
  bool held_ = false;
  std::shared_mutex forwarding_;  // guards held_; shared by those who forward a piece
  std::atomic<int> cuts_ = 0;
  std::atomic<uint64_t> bytes_ = 0;
  std::mt19937_64 random_;  // the accepting thread's
  std::list<std::unique_ptr<Pipe>> pipes_;
  std::thread accepting_;
};

}  // namespace lockstep::testing
