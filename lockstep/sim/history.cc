#include "lockstep/sim/history.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace lockstep::sim {

History::Id History::Ask(ServiceIncarnation service, const std::string& key,
                         KeyOperation operation) {
  operation.asked = Tick();
  std::vector<KeyOperation>& of_key = keys_[{service.value(), key}];
  of_key.push_back(std::move(operation));
  places_.push_back({{service.value(), key}, of_key.size() - 1});
  return places_.size() - 1;
}

void History::Answer(Id id, bool done, std::optional<std::string> result) {
  KeyOperation& operation = keys_.at(places_[id].first)[places_[id].second];
  operation.answered = Tick();
  operation.done = done;
  operation.result = std::move(result);
  ++answered_;
}

bool History::Full(ServiceIncarnation service, const std::string& key) const {
  auto found = keys_.find({service.value(), key});
  return found != keys_.end() && found->second.size() >= kKeyOperationsMax;
}

void History::Arrive(ServiceIncarnation service, const std::string& barrier, int64_t counter,
                     MemberIndex member, const std::string& value) {
  barriers_[{service.value(), barrier, counter}].arrivals.try_emplace(member, Tick(), value);
}

void History::Passed(ServiceIncarnation service, const std::string& barrier, int64_t counter,
                     MemberIndex member, const coord::MemberValues& values) {
  Barrier& instance = barriers_[{service.value(), barrier, counter}];
  std::string told;
  if (values != nullptr) {
    for (const coord::MemberValue& value : *values) {
      absl::StrAppend(&told, value.member.value(), "=", value.value, ";");
    }
  }
  const int64_t now = Tick();
  ++passed_;
  if (instance.first_passed == 0) {
    instance.first_passed = now;
    instance.told = told;
  } else if (instance.told != told) {
    Wrong(absl::StrCat("barrier ", barrier, "::", counter, " told member ", member.value(), " ",
                       told, " and another ", instance.told));
  }
}

void History::Propose(ServiceIncarnation service, const std::string& name, int64_t counter,
                      MemberIndex member, int64_t index, int64_t stride) {
  Agreement& agreement = agreements_[{service.value(), name, counter}];
  agreement.proposals[member] = index;
  agreement.greatest = std::max(agreement.greatest, index);
  agreement.stride = stride;
}

void History::Agreed(ServiceIncarnation service, const std::string& name, int64_t counter,
                     MemberIndex member, int64_t index) {
  Agreement& agreement = agreements_[{service.value(), name, counter}];
  if (agreement.index && *agreement.index != index) {
    Wrong(absl::StrCat("agreement ", name, "::", counter, " told ", *agreement.index, " and ",
                       index));
  }
  agreement.index = index;
  agreement.told = std::max(agreement.told, agreement.proposals.at(member));
}

void History::Watched(ServiceIncarnation service, const std::string& who,
                      const coord::KeysChanged& news) {
  Watcher& watcher = watchers_[{service.value(), who}];
  if (news.revision < watcher.revision) {
    return Wrong(
        absl::StrCat(who, " watched revision ", news.revision, " after ", watcher.revision));
  }
  if (news.snapshot) watcher.keys.clear();
  int64_t last = news.snapshot ? 0 : watcher.revision;
  for (const coord::KeyValue& change : news.changes) {
    // Several keys may go at one revision, when a directory is deleted.
    if (!news.snapshot && change.revision < last) {
      Wrong(absl::StrCat(who, " watched '", change.key, "' at ", change.revision, " after ", last));
    }
    last = std::max(last, change.revision);
    const std::optional<std::string> value =
        change.value == nullptr ? std::nullopt : std::optional(*change.value);
    auto [seen, is_new] =
        changes_.try_emplace({service.value(), change.revision, change.key}, value);
    if (!is_new && seen->second != value) {
      Wrong(absl::StrCat("'", change.key, "' was watched with two values at ", change.revision));
    }
    if (change.value == nullptr) {
      watcher.keys.erase(change.key);
    } else {
      watcher.keys[change.key] = *change.value;
    }
  }
  watcher.revision = news.revision;
  auto [state, is_new] = states_.try_emplace({service.value(), news.revision}, watcher.keys);
  if (!is_new && state->second != watcher.keys) {
    Wrong(absl::StrCat(who, " knows other keys at revision ", news.revision, " than another"));
  }
}

void History::InAs(ServiceIncarnation service, MemberIndex member, uint64_t incarnation) {
  auto [found, is_new] = members_.try_emplace({service.value(), member}, incarnation);
  if (!is_new && found->second != incarnation) {
    Wrong(absl::StrCat("two processes were let in as member ", member.value()));
  }
}

std::string History::Check(int32_t size) const {
  if (!wrong_.empty()) return wrong_;
  for (const auto& [key, operations] : keys_) {
    if (std::string wrong = CheckLinearizable(operations); !wrong.empty()) {
      return absl::StrCat("key '", key.second, "': ", wrong);
    }
  }
  for (const auto& [instance, barrier] : barriers_) {
    if (barrier.first_passed == 0) continue;
    const std::string name =
        absl::StrCat("barrier ", std::get<1>(instance), "::", std::get<2>(instance));
    if (barrier.arrivals.size() != static_cast<size_t>(size)) {
      return absl::StrCat(name, " passed with ", barrier.arrivals.size(), " of ", size);
    }
    std::string brought;
    for (const auto& [member, arrival] : barrier.arrivals) {
      if (arrival.first > barrier.first_passed) {
        return absl::StrCat(name, " passed before member ", member.value(), " had arrived");
      }
      absl::StrAppend(&brought, member.value(), "=", arrival.second, ";");
    }
    if (barrier.told != brought) {
      return absl::StrCat(name, " told ", barrier.told, " where members brought ", brought);
    }
  }
  for (const auto& [instance, agreement] : agreements_) {
    if (!agreement.index) continue;
    if (*agreement.index < agreement.told || *agreement.index % agreement.stride != 0 ||
        *agreement.index >= agreement.greatest + agreement.stride) {
      return absl::StrCat("agreement ", std::get<1>(instance), ": ", *agreement.index, " where ",
                          agreement.told, " was passed, with stride ", agreement.stride);
    }
  }
  return "";
}

}  // namespace lockstep::sim
