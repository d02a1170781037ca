// What the comparison asks of a server, whichever it is.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

namespace lockstep::bench {

// Some clients of one server, each with a connection of its own, driven by the program that
// measures. `Done` is called once; on which thread is the peer's affair, but never on two at once.
class Peer {
 public:
  using Done = std::function<void(std::string_view value)>;

  virtual ~Peer() = default;

  // Connects them all, and where there is such a thing has them registered.
  virtual void Connect(size_t clients) = 0;

  virtual void Set(size_t client, std::string key, std::string value, Done done) = 0;
  virtual void Get(size_t client, std::string key, Done done) = 0;
  // Until the key has a value.
  virtual void Wait(size_t client, std::string key, Done done);
  // Writes `value` if the key holds `expected` (empty: if it is not there).
  virtual void Swap(size_t client, std::string key, std::string expected, std::string value,
                    Done done);
  virtual void Barrier(size_t client, std::string id, Done done);
  // `changed` for every write to the key from now on; `ready` when "now" is.
  virtual void Watch(size_t client, std::string key, Done ready, Done changed);
  // Until the job has failed, for this client.
  virtual void AwaitError(size_t client, Done done);
  // Its process comes anew, which the job does not survive.
  virtual void Restart(size_t client, Done done);

  // Works until `Stop`, which a `Done` calls.
  virtual void Run() = 0;
  virtual void Stop() = 0;
};

// How a thread of the library ends a peer's `Run`.
class StopSignal {
 public:
  void Wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return given_; });
    given_ = false;
  }
  void Give() {
    const std::lock_guard lock(mutex_);
    given_ = true;
    changed_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool given_ = false;
};

// Ends the program: a figure from a server that failed is worth nothing.
[[noreturn]] void Die(const std::string& text);

std::unique_ptr<Peer> MakeLockstepPeer(const std::string& address, bool register_all);
std::unique_ptr<Peer> MakeStorePeer(const std::string& address);
std::unique_ptr<Peer> MakeToyPeer(const std::string& address);
std::unique_ptr<Peer> MakeEchoPeer(const std::string& address);
std::unique_ptr<Peer> MakeGrpcEchoPeer(const std::string& address);
std::unique_ptr<Peer> MakeEtcdPeer(const std::string& address);
std::unique_ptr<Peer> MakeJaxlibPeer(const std::string& address);

}  // namespace lockstep::bench
