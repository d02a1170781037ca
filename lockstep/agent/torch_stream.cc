#include "lockstep/agent/torch_stream.h"

#include <algorithm>
#include <utility>

namespace lockstep::agent {

void TorchStream::Push(Kind kind, std::string bytes) {
  // A wait that has not gone on never will.
  if (kind == Kind::kCancel && !queued_.empty() && queued_.back().kind == Kind::kWait) {
    queued_bytes_ -= queued_.back().bytes.size();
    queued_.pop_back();
  }
  queued_bytes_ += bytes.size();
  queued_.push_back({.kind = kind, .bytes = std::move(bytes)});
}

uint64_t TorchStream::wait() const {
  const bool waits = !under_way_.empty() && under_way_.back().kind == Kind::kWait;
  return waits ? under_way_.back().number : 0;
}

bool TorchStream::MayGo(Kind kind) const {
  if (under_way_.empty()) return true;
  // All before it have no answer.
  const Kind last = under_way_.back().kind;
  if (kind == Kind::kCancel) return last == Kind::kWait || last == Kind::kTell;
  return last == Kind::kTell && under_way_.size() < kUnderWayMax;
}

std::optional<TorchStream::Command> TorchStream::TakeNext() {
  // A cancellation overtakes what has no answer, since its client waits for it.
  auto next = std::find_if(queued_.begin(), queued_.end(),
                           [](const Command& queued) { return queued.kind != Kind::kTell; });
  if (next == queued_.end() || next->kind != Kind::kCancel) next = queued_.begin();
  if (next == queued_.end() || !MayGo(next->kind)) return std::nullopt;
  Command taken = std::move(*next);
  queued_.erase(next);
  queued_bytes_ -= taken.bytes.size();
  if (taken.kind != Kind::kCancel) {
    taken.number = ++last_;
    under_way_.push_back({taken.number, taken.kind});
  } else if (wait() != 0) {
    taken.number = wait();
    under_way_.pop_back();
  }
  return taken;
}

bool TorchStream::Answered(uint64_t number) {
  const auto found = std::find_if(under_way_.begin(), under_way_.end(),
                                  [number](const UnderWay& of) { return of.number == number; });
  if (found == under_way_.end()) return false;
  under_way_.erase(found);
  return true;
}

}  // namespace lockstep::agent
