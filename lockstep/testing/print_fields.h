// Structs of the coordinator as `name=value` text, field by field. Tests only; the format is
// nobody's contract.
#pragma once

#include <concepts>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "lockstep/base/ids.h"
#include "lockstep/base/time.h"
#include "lockstep/coord/error.h"
#include "lockstep/coord/events.h"
#include "lockstep/coord/records.h"

namespace lockstep::testing {

// Everything that the listeners can see of an error.
std::string PrintError(const coord::Error& error);

// Long values would drown the rest, and their length and ends tell them apart well enough.
inline std::string Show(const std::string& text) {
  constexpr size_t kShown = 4096;
  if (text.size() <= kShown) return absl::StrCat("\"", absl::CEscape(text), "\"");
  return absl::StrCat("\"", absl::CEscape(text.substr(0, 32)), "...\"(", text.size(), " bytes)");
}
template <std::integral T>
std::string Show(T number) {
  return absl::StrCat(number);
}
template <class Tag, class Rep>
std::string Show(Id<Tag, Rep> id) {
  return absl::StrCat(id.value());
}
inline std::string Show(SessionId id) {
  return absl::StrCat(absl::Hex(id.high), "-", absl::Hex(id.low));
}
inline std::string Show(Time time) {
  return time.is_infinite() ? "never" : absl::StrCat(time.nanoseconds(), "ns");
}
inline std::string Show(absl::Duration span) { return absl::FormatDuration(span); }
inline std::string Show(absl::StatusCode code) { return absl::StatusCodeToString(code); }
inline std::string Show(coord::Reason reason) { return std::string(coord::ReasonName(reason)); }
inline std::string Show(coord::MemberState state) {
  constexpr const char* kNames[] = {"disconnected", "connected", "error"};
  return kNames[static_cast<size_t>(state)];
}
inline std::string Show(const coord::ErrorPtr& error) {
  return error ? absl::StrCat("(", PrintError(*error), ")") : "none";
}
inline std::string Show(const std::shared_ptr<const std::string>& text) {
  return text ? Show(*text) : "null";
}
inline std::string Show(const coord::MemberValue& brought) {
  return absl::StrCat(Show(brought.member), ":", Show(brought.value));
}
inline std::string Show(const coord::PreemptionNotice& notice) {
  std::string subjects;
  for (MemberIndex subject : notice.subjects) absl::StrAppend(&subjects, subject.value(), " ");
  return absl::StrCat(Show(notice.source), "/", Show(notice.event), " of ", subjects, "at ",
                      Show(notice.death), " ", Show(notice.text));
}
template <class A, class B>
std::string Show(const std::pair<A, B>& pair) {
  return absl::StrCat(Show(pair.first), ":", Show(pair.second));
}
template <class T>
std::string Show(const std::vector<T>& list) {
  return absl::StrCat(
      "[",
      absl::StrJoin(list, ",", [](std::string* out, const T& item) { out->append(Show(item)); }),
      "]");
}
template <class T>
std::string Show(const std::shared_ptr<const std::vector<T>>& list) {
  return list ? Show(*list) : "null";
}
template <class T>
std::string Show(const std::optional<T>& value) {
  return value ? Show(*value) : "none";
}
inline std::string Show(const coord::KeyLifetime& lifetime) {
  return absl::StrCat(Show(lifetime.ttl), lifetime.with_member ? "+member" : "");
}
inline std::string Show(const coord::KeyCondition& condition) {
  return absl::StrCat("absent:", condition.absent, ",value:", Show(condition.value),
                      ",revision:", Show(condition.revision));
}

inline std::string Show(coord::NotifyPreemption::Act act) {
  constexpr const char* kNames[] = {"notify", "extend", "withdraw"};
  return kNames[static_cast<size_t>(act)];
}
inline std::string Show(coord::SyncState state) { return std::string(coord::SyncStateName(state)); }
inline std::string Show(const std::shared_ptr<const coord::PreemptionState>& state) {
  return absl::StrCat("{", state->id, " ", coord::PreemptionPhaseName(state->phase), " version ",
                      state->version, " round ", state->round, " step ", Show(state->sync_step),
                      state->withdrawn ? " withdrawn" : "", " death ", Show(state->death),
                      " since ", Show(state->since), " ",
                      coord::PreemptionOutcomeName(state->outcome), " ", Show(state->text), " ",
                      Show(state->notices), "}");
}

inline void AppendField(std::string& text, const char* name, const std::string& value) {
  absl::StrAppend(&text, text.empty() ? "" : " ", name, "=", value);
}

inline std::string PrintCaller(const coord::Caller& caller) {
  std::string text;
  AppendField(text, "call", Show(caller.call));
  AppendField(text, "service", Show(caller.service));
  AppendField(text, "incarnation", Show(caller.incarnation));
  if (!caller.native()) return text;
  AppendField(text, "session", Show(caller.session));
  AppendField(text, "number", Show(caller.number));
  if (caller.standing != coord::Standing::kOperator) {
    AppendField(text, "standing", caller.standing == coord::Standing::kTask ? "task" : "launcher");
  }
  return text;
}

#define LOCKSTEP_FIELD(name) \
  if constexpr (requires { e.name; }) AppendField(text, #name, Show(e.name))

// These two: of an event or a record. A field that is in neither list is not printed: add it here.
template <class T>
void AppendWho(const T& e, std::string& text) {
  if constexpr (requires { e.caller; }) text = PrintCaller(e.caller);
  LOCKSTEP_FIELD(call);
  LOCKSTEP_FIELD(session);
  LOCKSTEP_FIELD(open);
  LOCKSTEP_FIELD(resume);
  LOCKSTEP_FIELD(who);
  LOCKSTEP_FIELD(silent);
  LOCKSTEP_FIELD(number);
  LOCKSTEP_FIELD(attempt);
  LOCKSTEP_FIELD(service);
  LOCKSTEP_FIELD(member);
  LOCKSTEP_FIELD(state);
  LOCKSTEP_FIELD(incarnation);
  LOCKSTEP_FIELD(life);
  LOCKSTEP_FIELD(error);
  LOCKSTEP_FIELD(root_cause);
  if constexpr (!requires { e.subjects; }) LOCKSTEP_FIELD(left);
  LOCKSTEP_FIELD(recoverable);
  LOCKSTEP_FIELD(role);
  LOCKSTEP_FIELD(deadline);
  LOCKSTEP_FIELD(peer);
  LOCKSTEP_FIELD(host);
  LOCKSTEP_FIELD(pid);
  LOCKSTEP_FIELD(running);
  LOCKSTEP_FIELD(stopped);
  LOCKSTEP_FIELD(exit_code);
  LOCKSTEP_FIELD(signal);
  LOCKSTEP_FIELD(labels);
  LOCKSTEP_FIELD(step);
  LOCKSTEP_FIELD(phase);
  LOCKSTEP_FIELD(code);
  LOCKSTEP_FIELD(reason);
  LOCKSTEP_FIELD(message);
  LOCKSTEP_FIELD(origin);
  LOCKSTEP_FIELD(consequence);
}

template <class T>
void AppendWhat(const T& e, std::string& text) {
  LOCKSTEP_FIELD(version);
  LOCKSTEP_FIELD(id);
  LOCKSTEP_FIELD(name);
  LOCKSTEP_FIELD(counter);
  LOCKSTEP_FIELD(index);
  LOCKSTEP_FIELD(stride);
  LOCKSTEP_FIELD(timeout);
  LOCKSTEP_FIELD(members);
  LOCKSTEP_FIELD(once);
  LOCKSTEP_FIELD(verdict);
  LOCKSTEP_FIELD(key);
  LOCKSTEP_FIELD(keys);
  LOCKSTEP_FIELD(expected);
  LOCKSTEP_FIELD(value);
  LOCKSTEP_FIELD(values);
  LOCKSTEP_FIELD(values_forgotten);
  LOCKSTEP_FIELD(overwrite);
  LOCKSTEP_FIELD(lifetime);
  LOCKSTEP_FIELD(ttl);
  LOCKSTEP_FIELD(owner);
  LOCKSTEP_FIELD(increment);
  LOCKSTEP_FIELD(directory);
  LOCKSTEP_FIELD(limit);
  LOCKSTEP_FIELD(after);
  LOCKSTEP_FIELD(below);
  LOCKSTEP_FIELD(only_key);
  LOCKSTEP_FIELD(revision);
  LOCKSTEP_FIELD(deleted);
  LOCKSTEP_FIELD(result);
  LOCKSTEP_FIELD(swapped);
  LOCKSTEP_FIELD(through);
  LOCKSTEP_FIELD(act);
  LOCKSTEP_FIELD(source);
  LOCKSTEP_FIELD(event);
  LOCKSTEP_FIELD(subjects);
  LOCKSTEP_FIELD(left);
  LOCKSTEP_FIELD(text);
  LOCKSTEP_FIELD(answers);
  LOCKSTEP_FIELD(preemption);
  LOCKSTEP_FIELD(first);
  LOCKSTEP_FIELD(last_step);
  LOCKSTEP_FIELD(step_time);
  LOCKSTEP_FIELD(save_time);
}
#undef LOCKSTEP_FIELD

template <class T>
std::string PrintFields(const T& e) {
  std::string text;
  AppendWho(e, text);
  AppendWhat(e, text);
  return text;
}

}  // namespace lockstep::testing
