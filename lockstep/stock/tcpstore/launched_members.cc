#include "lockstep/stock/tcpstore/launched_members.h"

#include <utility>

#include "lockstep/base/check.h"

namespace lockstep::tcpstore {

void LaunchedMembers::Begin() {
  running_.clear();
  started_.clear();
  launched_ = false;
  // All ranks, until a launcher says otherwise.
  size_ = ranks_;
}

void LaunchedMembers::Launched() {
  launched_ = true;
  if (next_size_) size_ = *std::exchange(next_size_, std::nullopt);
}

void LaunchedMembers::ProcessStarted(int32_t member, int64_t pid) {
  // The job has no such rank.
  if (member < 0 || member >= ranks_) return;
  launched_ = true;
  running_[member] = pid;
  started_.insert(member);
  LOCKSTEP_DCHECK(running_.size() <= started_.size());
}

bool LaunchedMembers::ProcessEnded(int32_t member, int64_t pid) {
  const auto found = running_.find(member);
  if (found == running_.end() || found->second != pid) return false;
  running_.erase(found);
  LOCKSTEP_DCHECK(started_.contains(member) && running_.size() < started_.size());
  return true;
}

}  // namespace lockstep::tcpstore
