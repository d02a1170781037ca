// Native clients of lockstep/client, many in one process.
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lockstep/client/member.h"
#include "lockstep/client/session.h"
#include "peer.h"

namespace lockstep::bench {
namespace {

template <class T>
T Must(absl::StatusOr<T> result) {
  if (!result.ok()) Die(result.status().ToString());
  return *std::move(result);
}

// A single client asks as a program would: by blocking calls. Many are asynchronous.
class LockstepPeer : public Peer {
 public:
  explicit LockstepPeer(std::string address) : address_(std::move(address)) {}

  void Connect(size_t clients) override {
    members_.resize(clients);
    size_t missing = clients;
    for (size_t i = 0; i < clients; ++i) {
      JoinOptions options{.address = address_,
                          .job = absl::StrCat("bench-", clients),
                          .index = static_cast<int32_t>(i),
                          .size = static_cast<int32_t>(clients)};
      pending_.push_back(
          JoinAsync(options, [this, i, &missing](absl::StatusOr<std::unique_ptr<Member>> member) {
            members_[i] = Must(std::move(member));
            if (--missing == 0) Stop();
          }));
    }
    Run();
    for (const auto& member : members_) keys_.push_back(member->keys());
  }

  void Set(size_t client, std::string key, std::string value, Done done) override {
    if (members_.size() == 1) {
      return InTurn([this, key = std::move(key), value = std::move(value), done = std::move(done)] {
        Must(keys_[0].Set(key, value));
        done({});
      });
    }
    keys_[client].SetAsync(std::move(key), std::move(value), {},
                           [done = std::move(done)](absl::StatusOr<int64_t> revision) {
                             Must(std::move(revision));
                             done({});
                           });
  }
  void Get(size_t client, std::string key, Done done) override {
    if (members_.size() == 1) {
      return InTurn([this, key = std::move(key), done = std::move(done)] {
        done(Must(keys_[0].Get(key)).value);
      });
    }
    keys_[client].GetAsync(std::move(key), {}, Value(std::move(done)));
  }
  void Wait(size_t client, std::string key, Done done) override {
    keys_[client].WaitAsync(std::move(key), {}, Value(std::move(done)));
  }
  void Swap(size_t client, std::string key, std::string expected, std::string value,
            Done done) override {
    const KeyMust must =
        expected.empty() ? KeyMust::NotExist() : KeyMust::HaveValue(std::move(expected));
    if (members_.size() == 1) {
      return InTurn(
          [this, key = std::move(key), must, value = std::move(value), done = std::move(done)] {
            Must(keys_[0].CompareAndSet(key, must, value));
            done({});
          });
    }
    keys_[client].CompareAndSetAsync(std::move(key), must, std::move(value), {},
                                     [done = std::move(done)](absl::StatusOr<SwapResult> result) {
                                       Must(std::move(result));
                                       done({});
                                     });
  }
  void Barrier(size_t client, std::string id, Done done) override {
    members_[client]->BarrierAsync(
        std::move(id), {}, [done = std::move(done)](absl::StatusOr<std::vector<MemberValue>> all) {
          Must(std::move(all));
          done({});
        });
  }
  void Watch(size_t client, std::string key, Done ready, Done changed) override {
    watches_.push_back(keys_[client].Watch(
        std::move(key), [first = true, ready = std::move(ready),
                         changed = std::move(changed)](absl::StatusOr<KeyChanges> changes) mutable {
          if (!changes.ok()) return;  // it ends with the program
          if (std::exchange(first, false)) return ready({});
          for (const KeyChange& change : changes->changes) changed(change.value.value_or(""));
        }));
  }

  void Run() override {
    while (next_) std::exchange(next_, nullptr)();
    stop_.Wait();
  }
  void Stop() override { stop_.Give(); }

 private:
  // Called from `Run`, and not from within the call before it.
  void InTurn(std::function<void()> call) { next_ = std::move(call); }

  static Completion<KeyEntry> Value(Done done) {
    return [done = std::move(done)](absl::StatusOr<KeyEntry> entry) {
      done(Must(std::move(entry)).value);
    };
  }

  const std::string address_;
  std::vector<std::unique_ptr<Member>> members_;
  std::vector<Keys> keys_;
  std::vector<std::unique_ptr<KeyWatch>> watches_;
  std::vector<Pending> pending_;
  std::function<void()> next_;
  StopSignal stop_;
};

}  // namespace

std::unique_ptr<Peer> MakeLockstepPeer(const std::string& address, bool) {
  return std::make_unique<LockstepPeer>(address);
}

}  // namespace lockstep::bench
