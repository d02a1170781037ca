#include "lockstep/stock/tcpstore/lifetime.h"

#include <utility>
#include <variant>

namespace lockstep::tcpstore {
namespace {

// What each of torch's clients that knows the size of its world says once it is connected.
bool BeginsStockClient(const Command& command) {
  const auto* add = std::get_if<Add>(&command);
  return add != nullptr && add->key == "init/" && add->amount == 1;
}

}  // namespace

void Lifetime::Begin(bool launched) {
  newcomers_.clear();
  processes_.clear();
  running_.clear();
  started_.clear();
  groups_.Clear();
  launched_ = rested_ = false;
  connections_ = 0;
  left_at_.reset();
  // All ranks, until a launcher says otherwise; `Launched` may, so it comes last.
  size_ = ranks_;
  if (launched) Launched();
}

void Lifetime::Launched() {
  launched_ = true;
  if (next_size_) size_ = *std::exchange(next_size_, std::nullopt);
}

void Lifetime::ProcessStarted(int32_t member, int64_t pid) {
  // The job has no such rank.
  if (member < 0 || member >= ranks_) return;
  launched_ = true;
  running_[member] = pid;
  started_.insert(member);
}

bool Lifetime::ProcessEnded(int32_t member, int64_t pid) {
  const auto found = running_.find(member);
  // What is told of an older process of the member is late.
  if (found == running_.end() || found->second != pid) return false;
  running_.erase(found);
  return IsOver();
}

// A member that has yet to be started may be of another node.
bool Lifetime::IsOver() {
  const bool over = launched_ && connections_ == 0 && running_.empty() && !started_.empty() &&
                    started_.size() >= static_cast<size_t>(size_);
  // Whoever comes next belongs to an attempt of which nothing is known yet.
  if (over) Begin(/*launched=*/false);
  return over;
}

void Lifetime::Came(Time now, ConnectionId connection, std::string host) {
  // The rest is over with the first who comes, but what that means is decided when one asks for
  // something: whoever only looks in begins no run.
  if (connections_++ == 0 && left_at_ && now - *left_at_ >= rest_) rested_ = true;
  newcomers_[connection] = {std::move(host), std::nullopt};
}

bool Lifetime::AsksFirst(ConnectionId from, const Command& command) {
  const auto found = newcomers_.find(from);
  if (found == newcomers_.end()) return false;
  // Torch's client sends its pid by a PING before anything else: it stays a newcomer until then.
  if (const auto* ping = std::get_if<Ping>(&command)) {
    if (!found->second.second) found->second.second = ping->number;
    return false;
  }
  Process process = std::move(found->second);
  newcomers_.erase(found);
  const bool is_new = std::exchange(rested_, false) && IsNewRun(process, command);
  // Before the process is added: it is the first of the new run.
  if (is_new) {
    processes_.clear();
    groups_.Clear();
  }
  // Without a pid it cannot be known again.
  if (!process.second) return is_new;
  if (BeginsStockClient(command)) groups_.Came(from, process);
  if (processes_.size() < ProcessesMax()) processes_.insert(std::move(process));
  return is_new;
}

bool Lifetime::IsNewRun(const Process& process, const Command& command) const {
  // Each condition on its own makes it doubtful, and in doubt the keys stay.
  return !launched_ && BeginsStockClient(command) && process.second &&
         processes_.size() >= static_cast<size_t>(ranks_) && processes_.size() < ProcessesMax() &&
         !processes_.contains(process);
}

bool Lifetime::Left(Time now, ConnectionId connection) {
  newcomers_.erase(connection);
  groups_.Left(connection);
  if (--connections_ > 0) return false;
  // Who asked for nothing has not ended the rest.
  if (!rested_) left_at_ = now;
  return IsOver();
}

}  // namespace lockstep::tcpstore
