#include "lockstep/stock/tcpstore/process_groups.h"

#include <variant>

#include "lockstep/base/check.h"

namespace lockstep::tcpstore {
namespace {

absl::string_view FirstKey(const Keys& keys) {
  return keys.empty() ? absl::string_view() : keys.front();
}

// A command is of a group by its first key: clients do not mix the keys of groups with others.
struct FirstKeyOf {
  template <typename Is>
  absl::string_view operator()(const Is& is) const {
    if constexpr (requires { is.key; }) {
      return is.key;
    } else if constexpr (requires { is.keys; }) {
      return FirstKey(is.keys);
    } else {
      return {};
    }
  }
  absl::string_view operator()(const MultiSet& is) const {
    return is.pairs.empty() ? absl::string_view() : is.pairs.front().key;
  }
};

}  // namespace

bool IsOfGroup(const Command& command) { return IsOfGroup(std::visit(FirstKeyOf(), command)); }

bool ProcessGroups::Joins(ConnectionId connection) {
  const auto found = outside_.find(connection);
  if (found == outside_.end()) return false;
  // Once for each connection: what it asks for later tells nothing new.
  Process process = std::move(found->second);
  outside_.erase(found);
  const auto had = processes_.find(process);
  // Beyond the bound a process is not known again, and in doubt the keys stay.
  if (had == processes_.end() && processes_.size() >= processes_max_) return false;
  // It was in this group, by connections that it has closed, and comes again: so it makes the next.
  const bool is_next =
      had != processes_.end() && had->second.group == group_ && had->second.connections == 0;
  // Before the membership is noted: the process is the first of the next group.
  if (is_next) ++group_;
  Membership& membership = processes_[process];
  membership.group = group_;
  ++membership.connections;
  LOCKSTEP_DCHECK(processes_.size() <= processes_max_ && !inside_.contains(connection));
  inside_.emplace(connection, std::move(process));
  return is_next;
}

void ProcessGroups::Left(ConnectionId connection) {
  // It may have left before it asked for a key of a group.
  outside_.erase(connection);
  const auto found = inside_.find(connection);
  if (found == inside_.end()) return;
  // The process stays known: that it was in the group tells of the next one.
  Membership& membership = processes_.at(found->second);
  LOCKSTEP_DCHECK(membership.connections > 0 && membership.group <= group_);
  --membership.connections;
  inside_.erase(found);
}

void ProcessGroups::Clear() {
  outside_.clear();
  inside_.clear();
  processes_.clear();
}

}  // namespace lockstep::tcpstore
