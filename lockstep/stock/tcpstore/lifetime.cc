#include "lockstep/stock/tcpstore/lifetime.h"

#include <utility>
#include <variant>

#include "lockstep/base/check.h"

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
  groups_.Clear();
  rest_.Clear();
  members_.Begin();
  // It may say another size than `Begin`, so it comes last.
  if (launched) members_.Launched();
}

bool Lifetime::ProcessEnded(int32_t member, int64_t pid) {
  // A late report of an older process ends nothing.
  return members_.ProcessEnded(member, pid) && IsOver();
}

bool Lifetime::IsOver() {
  const bool over = rest_.none_here() && members_.AllEnded();
  // Whoever comes next belongs to an attempt of which nothing is known yet.
  if (over) Begin(/*launched=*/false);
  return over;
}

void Lifetime::Came(Time now, ConnectionId connection, std::string host) {
  rest_.Came(now);
  LOCKSTEP_DCHECK(!newcomers_.contains(connection));
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
  const bool is_new = rest_.TakeRested() && IsNewRun(process, command);
  // Before the process is added: it is the first of the new run.
  if (is_new) {
    processes_.clear();
    groups_.Clear();
  }
  // Without a pid it cannot be known again.
  if (!process.second) return is_new;
  LOCKSTEP_DCHECK(processes_.size() <= ProcessesMax());
  if (BeginsStockClient(command)) groups_.Came(from, process);
  if (processes_.size() < ProcessesMax()) processes_.insert(std::move(process));
  return is_new;
}

bool Lifetime::IsNewRun(const Process& process, const Command& command) const {
  // Each condition on its own makes it doubtful, and in doubt the keys stay.
  return !members_.launched() && BeginsStockClient(command) && process.second &&
         processes_.size() >= static_cast<size_t>(ranks_) && processes_.size() < ProcessesMax() &&
         !processes_.contains(process);
}

bool Lifetime::Left(Time now, ConnectionId connection) {
  newcomers_.erase(connection);
  groups_.Left(connection);
  // Before IsOver, which counts on it: the last connection may end the attempt.
  rest_.Left(now);
  return IsOver();
}

}  // namespace lockstep::tcpstore
