#include "lockstep/agent/torch_stream.h"

#include <algorithm>
#include <iterator>
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

bool TorchStream::MayGo(const Command& command) const {
  if (under_way_.empty()) return true;
  const UnderWay& last = under_way_.back();
  // All that is under way has no answer, but for the last.
  if (command.kind == Kind::kCancel) return last.kind == Kind::kWait || last.kind == Kind::kTell;
  return last.kind == Kind::kTell && !last.alone && command.bytes.size() <= kTogetherBytesMax &&
         under_way_.size() < kUnderWayMax;
}

std::optional<TorchStream::Command> TorchStream::TakeNext() {
  // A cancellation overtakes what has no answer, since its client waits for it.
  auto next = std::find_if(queued_.begin(), queued_.end(),
                           [](const Command& queued) { return queued.kind != Kind::kTell; });
  if (next == queued_.end() || next->kind != Kind::kCancel) next = queued_.begin();
  if (next == queued_.end() || !MayGo(*next)) return std::nullopt;
  Command taken = std::move(*next);
  queued_.erase(next);
  queued_bytes_ -= taken.bytes.size();
  if (taken.kind != Kind::kCancel) {
    taken.number = ++last_;
    taken.after = under_way_.empty() ? 0 : under_way_.back().number;
    under_way_.push_back({.number = taken.number,
                          .kind = taken.kind,
                          .alone = taken.bytes.size() > kTogetherBytesMax});
  } else if (wait() != 0) {
    taken.number = wait();
    under_way_.pop_back();
  }
  return taken;
}

void TorchStream::DropQueued() {
  queued_.clear();
  queued_bytes_ = 0;
}

bool TorchStream::takes_more() const {
  if (queued_.size() >= kQueuedMax || queued_bytes_ >= kQueuedBytesMax) return false;
  const auto asks = [](const auto& command) { return command.kind == Kind::kAsk; };
  // Its answer may be long, and its client slow to read.
  if (std::any_of(queued_.begin(), queued_.end(), asks)) return false;
  if (std::any_of(under_way_.begin(), under_way_.end(), asks)) return false;
  // A wait may be taken back, and nothing else is of use before it is over.
  const auto waits = [](const auto& command) { return command.kind == Kind::kWait; };
  if (queued_.empty()) return true;
  return wait() == 0 && std::none_of(queued_.begin(), std::prev(queued_.end()), waits);
}

bool TorchStream::Answered(uint64_t number) {
  const auto found = std::find_if(under_way_.begin(), under_way_.end(),
                                  [number](const UnderWay& of) { return of.number == number; });
  if (found == under_way_.end()) return false;
  under_way_.erase(found);
  return true;
}

}  // namespace lockstep::agent
