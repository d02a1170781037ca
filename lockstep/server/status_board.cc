#include "lockstep/server/status_board.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "lockstep/base/check.h"
#include "lockstep/wire/native/codec.h"

namespace lockstep::server {
namespace {

using wire::native::JobStatus;
using wire::native::StatusReply;

// Pieces are at least this long, but for the last: fewer and longer ones would take longer to copy
// than a step should.
constexpr size_t kPieceBytes = size_t{128} << 10;

void Append(std::vector<std::string>& pieces, std::string bytes) {
  if (pieces.empty() || pieces.back().size() >= kPieceBytes) {
    pieces.push_back(std::move(bytes));
  } else {
    pieces.back() += bytes;
  }
}

size_t SizeOf(const std::vector<std::string>& pieces) {
  size_t size = 0;
  for (const std::string& piece : pieces) size += piece.size();
  return size;
}

// What stands before a job of so many bytes in a reply: its tag and its length.
std::string PrefixOfJob(size_t size) {
  constexpr char kTag = (2 << 3) | 2;  // StatusReply.jobs; server_test.cc decodes what we write
  std::string prefix(1, kTag);
  for (; size >= 0x80; size >>= 7) prefix.push_back(static_cast<char>((size & 0x7F) | 0x80));
  prefix.push_back(static_cast<char>(size));
  return prefix;
}

}  // namespace

void StatusBoard::Ask(Wish job, Done done) {
  std::vector<Done>& waiting = waiting_[job];
  if (waiting.empty()) order_.push_back(std::move(job));
  waiting.push_back(std::move(done));
  if (!std::exchange(running_, true)) Run();
}

void StatusBoard::Run() {
  runtime::TurnBudget budget;
  while (build_ || BeginNext()) {
    Step();
    if (!budget.Spent()) continue;
    return loop_.Post([this, alive = std::weak_ptr(alive_)] {
      if (!alive.expired()) Run();
    });
  }
  running_ = false;
}

bool StatusBoard::BeginNext() {
  LOCKSTEP_DCHECK(build_ == nullptr);
  if (order_.empty()) return false;
  const Wish wish = std::move(order_.front());
  order_.pop_front();
  auto waiting = waiting_.extract(wish);
  LOCKSTEP_DCHECK(!waiting.empty());  // `order_` names who waits, each once
  build_ = std::make_unique<Build>();
  build_->done = std::move(waiting.mapped());
  build_->of_one_job = wish.has_value();
  build_->jobs = wish ? std::vector<std::string>{*wish} : source_.jobs();
  build_->pieces.push_back(
      wire::native::Encode(source_.head(runtime::MonotonicNow(), !build_->of_one_job)));
  return true;
}

void StatusBoard::Step() {
  if (build_->bytes) return Join();
  if (build_->in_job) return build_->next_member < build_->size ? AddMembers() : EndJob();
  if (build_->next_job < build_->jobs.size()) return BeginJob();
  build_->bytes = std::make_shared<std::string>();
  build_->bytes->reserve(SizeOf(build_->pieces));
}

void StatusBoard::BeginJob() {
  const auto status = source_.job(runtime::MonotonicNow(), build_->jobs[build_->next_job]);
  build_->job_pieces.clear();
  if (!status.ok()) {
    if (build_->of_one_job) return Finish(status.status());
    build_->in_job = false;
    build_->begins = 0;
    ++build_->next_job;  // deleted meanwhile
    return;
  }
  build_->in_job = true;
  build_->attempt = status->attempt;
  build_->size = status->size;
  build_->next_member = 0;
  ++build_->begins;
  build_->job_pieces.push_back(wire::native::Encode(*status));
}

void StatusBoard::AddMembers() {
  LOCKSTEP_DCHECK(build_->in_job && build_->next_member < build_->size);
  const int32_t count = std::min(build_->size - build_->next_member, kMembersPerStep);
  // Encoded, a message of nothing but members is what they add to one that has all the rest.
  JobStatus part;
  std::optional<int64_t> attempt;
  if (build_->begins < kBeginsMax) attempt = build_->attempt;
  const bool same = source_.members(runtime::MonotonicNow(), build_->jobs[build_->next_job],
                                    attempt, build_->next_member, count, part.members);
  if (!same) return BeginJob();
  Append(build_->job_pieces, wire::native::Encode(part));
  build_->next_member += count;
}

void StatusBoard::EndJob() {
  Append(build_->pieces, PrefixOfJob(SizeOf(build_->job_pieces)));
  for (std::string& piece : build_->job_pieces) Append(build_->pieces, std::move(piece));
  build_->job_pieces.clear();
  build_->in_job = false;
  build_->begins = 0;
  ++build_->next_job;
}

void StatusBoard::Join() {
  if (build_->next_piece == build_->pieces.size()) return Finish(Bytes(std::move(build_->bytes)));
  std::string& piece = build_->pieces[build_->next_piece++];
  *build_->bytes += piece;
  std::string().swap(piece);
}

void StatusBoard::Finish(absl::StatusOr<Bytes> result) {
  // They may ask again at once.
  std::vector<Done> all = std::move(build_->done);
  build_.reset();
  for (Done& done : all) done(result);
}

}  // namespace lockstep::server
