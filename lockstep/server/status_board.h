// What `lockstep status`, /metrics and the pages below /v1 show: put together a little at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "lockstep/base/time.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/wire/native/status_messages.h"

namespace lockstep::server {

// Where the board looks, on the loop.
struct StatusSource {
  // A reply without its jobs. `of_all`: it will tell of all jobs.
  std::function<wire::native::StatusReply(Time now, bool of_all)> head;
  // The names of all jobs.
  std::function<std::vector<std::string>()> jobs;
  // A job without its members. NOT_FOUND: it is gone.
  std::function<absl::StatusOr<wire::native::JobStatus>(Time now, const std::string& job)> job;
  // Adds `count` members from `first` on. False, with nothing added: the job is gone, or in another
  // attempt than this one.
  std::function<bool(Time now, const std::string& job, std::optional<int64_t> attempt,
                     int32_t first, int32_t count, std::vector<wire::native::MemberStatus>& out)>
      members;
};

// Makes one StatusReply at a time, encoded, in steps of kMembersPerStep members and in turns of
// runtime::TurnBudget::kTime: a job of 65,536 members takes hundreds of turns, and others are
// served between them. Everybody who asks for the same before it is begun gets the same bytes. So
// an answer tells nothing older than its request, and however many ask, one reply is in the making
// and one waits for each job that was asked for by name. Times in it are as of the turn in which
// they were read.
//
// Threads: loop-confined. Ownership: the loop outlives it. Destroying it drops who waits.
class StatusBoard {
 public:
  using Bytes = std::shared_ptr<const std::string>;
  using Wish = std::optional<std::string>;
  using Done = absl::AnyInvocable<void(absl::StatusOr<Bytes>)>;

  static constexpr int32_t kMembersPerStep = 32;
  // How often a job is looked at anew because another attempt began meanwhile; then the members of
  // both stand beside each other.
  static constexpr int kBeginsMax = 3;

  StatusBoard(runtime::Loop& loop, StatusSource source) : loop_(loop), source_(std::move(source)) {}

  // All jobs, or one. Calls back on the loop, at once if it is little and nobody else waits.
  void Ask(Wish job, Done done);

 private:
  // A reply that is being made.
  struct Build {
    std::vector<Done> done;
    bool of_one_job = false;
    std::vector<std::string> jobs;
    size_t next_job = 0;
    // The job before `next_job`, when it is begun and not done.
    bool in_job = false;
    int64_t attempt = 0;
    int32_t size = 0;
    int32_t next_member = 0;
    int begins = 0;
    std::vector<std::string> job_pieces;
    // What is done of the reply; then put together.
    std::vector<std::string> pieces;
    size_t next_piece = 0;
    std::shared_ptr<std::string> bytes;
  };

  void Run();
  bool BeginNext();
  void Step();
  void BeginJob();
  void AddMembers();
  void EndJob();
  void Join();
  void Finish(absl::StatusOr<Bytes> result);

  runtime::Loop& loop_;
  const StatusSource source_;
  std::map<Wish, std::vector<Done>> waiting_;
  std::deque<Wish> order_;  // of those
  std::unique_ptr<Build> build_;
  bool running_ = false;  // or about to
  const std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

}  // namespace lockstep::server
