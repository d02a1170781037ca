// A job that is preempted, started again where it saved, and preempted once more: from the source
// of a notice to the sum that an undisturbed job would have.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <fstream>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "lockstep/client/member.h"
#include "lockstep/client/preemption.h"
#include "lockstep/preempt/registry.h"
#include "lockstep/preempt/source_set.h"
#include "tests/native/native_server.h"
#include "tests/native/native_testing.h"
#include "tests/native/preemption_workers.h"

namespace lockstep {
namespace {

constexpr int kReplicas = 2;
constexpr int64_t kStepsBefore = 10;  // a replica's, before a notice comes

// What stands on disks: the step to go on with, and each replica's sum.
struct Checkpoint {
  int64_t next = 0;
  std::array<int64_t, kReplicas> sums = {};
};

// A file whose being there is the notice, as an administrator's or a prolog's may be.
class DrainFile {
 public:
  DrainFile() : directory_(testing::TempDir() + "drain.XXXXXX") {
    EXPECT_NE(::mkdtemp(directory_.data()), nullptr);
  }
  ~DrainFile() {
    Remove();
    ::rmdir(directory_.c_str());
  }
  std::string path() const { return directory_ + "/drain"; }
  void Write() {
    std::ofstream(path() + ".new") << "300s";
    EXPECT_EQ(::rename((path() + ".new").c_str(), path().c_str()), 0);
  }
  void Remove() { ::unlink(path().c_str()); }

 private:
  std::string directory_;
};

// One life of the job: each replica adds one to its sum in each step.
class Life {
 public:
  Life(const NativeServer& server, Checkpoint from)
      : from_(from), sums_(from.sums), members_(JoinAll(server, kReplicas)) {
    for (const auto& member : members_) preemptions_.push_back(Preemption::Open(*member));
    AwaitListening(members_);
  }

  // Until it is preempted, after a notice to that replica's host.
  Checkpoint UntilPreempted(int told) {
    DrainFile file;
    auto sources = preempt::MakeSources({"file:interval=10ms,path=" + file.path()},
                                        preempt::BuiltinSources(), {});
    EXPECT_TRUE(sources.ok()) << sources.status();
    preempt::SourceListener listener;
    listener.on_event = [&](const preempt::SourceEvent& event) {
      if (event.withdrawn) return;
      const absl::Status given =
          preemptions_[told]->Notify(event.source, event.id, event.left, event.text);
      EXPECT_TRUE(given.ok()) << given;
    };
    preempt::SourceSet set(*std::move(sources), listener);
    EXPECT_TRUE(set.Start().ok());
    std::vector<std::future<int64_t>> at_work = Start(std::nullopt);
    while (done_[0] < kStepsBefore || done_[1] < kStepsBefore) std::this_thread::yield();
    file.Write();
    std::vector<int64_t> saved;
    for (auto& replica : at_work) saved.push_back(replica.get());
    EXPECT_EQ(saved[0], saved[1]) << "of one step";
    set.Stop();
    while (preemptions_[0]->notice().open) std::this_thread::yield();
    const PreemptionNotice ended = preemptions_[0]->notice();
    EXPECT_EQ(ended.outcome, "saved") << ended.text;
    EXPECT_EQ(ended.sources, std::vector<std::string>{"file"});
    EXPECT_EQ(ended.subjects, std::vector<int32_t>{told});
    Leave();
    return {.next = saved[0] + 1, .sums = sums_};
  }

  std::array<int64_t, kReplicas> ToTheEnd(int64_t last) {
    for (auto& replica : Start(last)) replica.get();
    Leave();
    return sums_;
  }

 private:
  // Each returns the step at which it saved, or the last.
  std::vector<std::future<int64_t>> Start(std::optional<int64_t> last) {
    std::vector<std::future<int64_t>> replicas;
    for (int i = 0; i < kReplicas; ++i) {
      replicas.push_back(std::async(std::launch::async, [this, i, last] {
        for (int64_t step = from_.next;; ++step) {
          ++sums_[i];
          ++done_[i];
          if (preemptions_[i]->Reached(step)) {
            preemptions_[i]->Saved(step, "/ckpt");
            return step;
          }
          if (step == last) return step;
        }
      }));
    }
    return replicas;
  }
  void Leave() {
    std::vector<std::future<absl::Status>> leaving;
    for (const auto& member : members_) {
      leaving.push_back(std::async(std::launch::async, [&member] { return member->Leave(); }));
    }
    for (auto& one : leaving) EXPECT_TRUE(one.get().ok());
  }

  const Checkpoint from_;
  std::array<int64_t, kReplicas> sums_;
  std::array<std::atomic<int64_t>, kReplicas> done_ = {};
  std::vector<std::unique_ptr<Member>> members_;
  std::vector<std::unique_ptr<Preemption>> preemptions_;
};

TEST(PreemptionTraining, PreemptionRow20_ThePreemptedJobComesToTheSameSum) {
  NativeServer server(JobOf(kReplicas));
  const Checkpoint saved = Life(server, {}).UntilPreempted(0);
  EXPECT_GE(saved.next, kStepsBefore) << "it does not begin at 0 again";
  const int64_t last = saved.next + 20;
  for (const int64_t sum : Life(server, saved).ToTheEnd(last)) EXPECT_EQ(sum, last + 1);
}

TEST(PreemptionTraining, PreemptionRow21_OneHostAfterTheOther) {
  NativeServer server(JobOf(kReplicas));
  const Checkpoint first = Life(server, {}).UntilPreempted(0);
  const Checkpoint second = Life(server, first).UntilPreempted(1);
  EXPECT_GE(second.next, first.next + kStepsBefore);
  const int64_t last = second.next + 20;
  for (const int64_t sum : Life(server, second).ToTheEnd(last)) EXPECT_EQ(sum, last + 1);
}

}  // namespace
}  // namespace lockstep
