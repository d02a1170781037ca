#include "lockstep/testing/print_effects.h"

#include <type_traits>
#include <variant>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"

namespace lockstep::testing {
namespace {

using coord::Answer;
using coord::Caller;

template <class... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};
template <class... Fs>
Overloaded(Fs...) -> Overloaded<Fs...>;

// Long values would drown the rest, and their length and ends tell them apart well enough.
std::string Quoted(const std::string& text) {
  constexpr size_t kShown = 4096;
  if (text.size() <= kShown) return absl::StrCat("\"", absl::CEscape(text), "\"");
  return absl::StrCat("\"", absl::CEscape(text.substr(0, 32)), "...\"(", text.size(), " bytes)");
}

std::string Members(const std::vector<MemberIndex>& members) {
  return absl::StrCat("[",
                      absl::StrJoin(members, ",",
                                    [](std::string* out, MemberIndex member) {
                                      absl::StrAppend(out, member.value());
                                    }),
                      "]");
}

std::string StateName(coord::MemberState state) {
  switch (state) {
    case coord::MemberState::kDisconnected:
      return "disconnected";
    case coord::MemberState::kConnected:
      return "connected";
    case coord::MemberState::kError:
      return "error";
  }
  return "?";
}

std::string PrintEntry(const coord::KeyValue& entry) {
  return absl::StrCat(Quoted(entry.key), "=", entry.value ? Quoted(*entry.value) : "null");
}

std::string PrintError(const coord::Error& error) {
  std::string text =
      absl::StrCat(absl::StatusCodeToString(error.code), " ",
                   std::string(coord::ReasonName(error.reason)), " ", Quoted(error.message));
  if (!error.from_service) absl::StrAppend(&text, " unmarked");
  if (error.origin) absl::StrAppend(&text, " origin=", error.origin->value());
  if (error.reported) absl::StrAppend(&text, " reported");
  if (error.barrier) {
    absl::StrAppend(&text, " barrier=", Quoted(error.barrier->id), "::", error.barrier->counter);
  }
  if (error.right_service) absl::StrAppend(&text, " right=", error.right_service->value());
  return text;
}

std::string PrintStatus(const coord::MemberStatus& status) {
  std::string text = absl::StrCat(status.member.value(), "#", status.incarnation.value(), ":",
                                  StateName(status.state));
  if (status.error) absl::StrAppend(&text, "(", PrintError(*status.error), ")");
  return text;
}

std::string PrintAnswer(const Answer& answer) {
  return std::visit(
      Overloaded{
          [](std::monostate) -> std::string { return "done"; },
          [](const coord::Registered& a) { return absl::StrCat("registered ", a.service.value()); },
          [](const coord::HeartbeatTaken& a) {
            return absl::StrCat("heartbeat taken ", a.service.value());
          },
          [](const coord::KeyRead& a) { return absl::StrCat("key ", PrintEntry(a.entry)); },
          [](const coord::KeysListed& a) {
            return absl::StrCat(
                "keys ", absl::StrJoin(a.entries, " ", [](std::string* out, const auto& entry) {
                  out->append(PrintEntry(entry));
                }));
          },
          [](const coord::BarrierPassed& a) { return absl::StrCat("barrier passed ", a.counter); },
          [](const coord::AliveMembers& a) {
            return absl::StrCat(
                "alive ", absl::StrJoin(*a.members, " ", [](std::string* out, const auto& alive) {
                  absl::StrAppend(out, alive.member.value(), "#", alive.incarnation.value());
                }));
          },
          [](const coord::MembersWatched& a) {
            return absl::StrCat(
                "members at version ", a.version, ": ",
                absl::StrJoin(*a.members, " ", [](std::string* out, const auto& status) {
                  out->append(PrintStatus(status));
                }));
          },
          [](const coord::KeyWritten& a) { return absl::StrCat("written at ", a.revision); },
          [](const coord::KeySwapped& a) {
            return absl::StrCat(a.swapped ? "swapped " : "not swapped ",
                                a.entry ? PrintEntry(*a.entry) : "no key");
          },
          [](const coord::KeysDeleted& a) {
            return absl::StrCat("deleted ", a.deleted, " at ", a.revision);
          },
          [](const coord::KeysChanged& a) {
            return absl::StrCat(
                a.snapshot ? "all" : "changes", " to ", a.revision, ": ",
                absl::StrJoin(a.changes, " ", [](std::string* out, const auto& entry) {
                  out->append(PrintEntry(entry));
                }));
          },
          [](const coord::IndexAgreed& a) {
            return absl::StrCat("agreed ", a.index, " counter ", a.counter);
          },
          [](const coord::SessionOpened& a) {
            return absl::StrCat(a.resumed ? "resumed" : "opened", " attempt ", a.attempt);
          },
          [](const coord::Joined& a) {
            return absl::StrCat("joined ", a.name, " member ", a.member.value(), " service ",
                                a.service.value());
          },
          [](const coord::JobChanged& a) {
            return absl::StrCat("job at version ", a.change->version, ": ",
                                a.change->members.size(), " members, ", a.change->errors.size(),
                                " errors");
          }},
      answer);
}

std::string PrintCaller(const Caller& caller) {
  std::string text = absl::StrFormat("call=%d service=%d incarnation=%d", caller.call.value(),
                                     caller.service.value(), caller.incarnation.value());
  if (caller.native()) {
    absl::StrAppendFormat(&text, " session=%x:%x number=%d", caller.session.high,
                          caller.session.low, caller.number);
  }
  return text;
}

std::string PrintTime(Time time) {
  return time.is_infinite() ? "never" : absl::StrCat(time.nanoseconds(), "ns");
}

// What an event has of the fields that most events have, then what is its own.
std::string PrintFields(const coord::RegisterMember& e) {
  return absl::StrFormat("call=%d member=%d incarnation=%d deadline=%s peer=%s", e.call.value(),
                         e.member.value(), e.incarnation.value(), PrintTime(e.deadline),
                         Quoted(e.peer));
}
std::string PrintFields(const coord::Heartbeat& e) {
  return absl::StrFormat("%s member=%d sent=%d", PrintCaller(e.caller), e.member.value(),
                         e.incarnation.value());
}
std::string PrintFields(const coord::PollForError& e) {
  return absl::StrFormat("%s member=%d", PrintCaller(e.caller), e.member.value());
}
std::string PrintFields(const coord::ReportError& e) {
  return absl::StrFormat("%s member=%d code=%s message=%s", PrintCaller(e.caller), e.member.value(),
                         absl::StatusCodeToString(e.code), Quoted(e.message));
}
std::string PrintFields(const coord::LeaveJob& e) {
  return absl::StrFormat("%s member=%d", PrintCaller(e.caller), e.member.value());
}
std::string PrintFields(const coord::ResetMember& e) {
  return absl::StrFormat("%s member=%d", PrintCaller(e.caller), e.member.value());
}
std::string PrintFields(const coord::WatchMembers& e) {
  return absl::StrFormat("%s version=%s", PrintCaller(e.caller),
                         e.version ? absl::StrCat(*e.version) : "none");
}
std::string PrintFields(const coord::SetKey& e) {
  return absl::StrFormat("%s key=%s value=%s overwrite=%d", PrintCaller(e.caller), Quoted(e.key),
                         Quoted(e.value), e.overwrite);
}
std::string PrintFields(const coord::IncrementKey& e) {
  return absl::StrFormat("%s key=%s increment=%d", PrintCaller(e.caller), Quoted(e.key),
                         e.increment);
}
std::string PrintFields(const coord::ListKeys& e) {
  return absl::StrFormat("%s directory=%s", PrintCaller(e.caller), Quoted(e.directory));
}
template <class KeyEvent>
std::string PrintKeyEvent(const KeyEvent& e) {
  return absl::StrFormat("%s key=%s", PrintCaller(e.caller), Quoted(e.key));
}
std::string PrintFields(const coord::GetKey& e) { return PrintKeyEvent(e); }
std::string PrintFields(const coord::TryGetKey& e) { return PrintKeyEvent(e); }
std::string PrintFields(const coord::DeleteKey& e) { return PrintKeyEvent(e); }
std::string PrintFields(const coord::ArriveAtBarrier& e) {
  return absl::StrFormat("%s member=%d id=%s counter=%d timeout=%s members=%s",
                         PrintCaller(e.caller), e.member.value(), Quoted(e.id), e.counter,
                         absl::FormatDuration(e.timeout), Members(e.members));
}
std::string PrintFields(const coord::CancelBarrier& e) {
  return absl::StrFormat("%s member=%d id=%s counter=%s", PrintCaller(e.caller), e.member.value(),
                         Quoted(e.id), e.counter ? absl::StrCat(*e.counter) : "none");
}
std::string PrintFields(const coord::GetAliveMembers& e) {
  return absl::StrFormat("%s member=%d members=%s", PrintCaller(e.caller), e.member.value(),
                         Members(e.members));
}
std::string PrintFields(const coord::CallLeft& e) {
  return absl::StrFormat("call=%d", e.call.value());
}
std::string PrintFields(const coord::ProcessStarted& e) {
  return absl::StrFormat("member=%d host=%s pid=%d", e.member.value(), Quoted(e.host), e.pid);
}
std::string PrintFields(const coord::ProcessEnded& e) {
  return absl::StrFormat("member=%d pid=%d exit_code=%d signal=%d", e.member.value(), e.pid,
                         e.exit_code, e.signal);
}
std::string PrintFields(const coord::ProcessStopped& e) {
  return absl::StrFormat("member=%d pid=%d", e.member.value(), e.pid);
}
std::string PrintFields(const coord::ProcessContinued& e) {
  return absl::StrFormat("member=%d pid=%d", e.member.value(), e.pid);
}
std::string PrintFields(const coord::GetMemberStates& e) {
  return absl::StrFormat("%s members=%s", PrintCaller(e.caller), Members(e.members));
}
std::string PrintSession(SessionId session) {
  return absl::StrFormat("session=%x:%x", session.high, session.low);
}
std::string PrintFields(const coord::OpenSession& e) {
  return absl::StrFormat("call=%d %s resume=%d", e.call.value(), PrintSession(e.session), e.resume);
}
std::string PrintFields(const coord::SessionBroke& e) {
  return absl::StrFormat("%s silent=%d", PrintSession(e.session), e.silent);
}
std::string PrintFields(const coord::AnsweredThrough& e) {
  return absl::StrFormat("%s number=%d", PrintSession(e.session), e.number);
}
std::string PrintFields(const coord::CloseSession& e) { return PrintCaller(e.caller); }
std::string PrintFields(const coord::JoinJob& e) {
  return absl::StrFormat("%s role=%s index=%s incarnation=%d deadline=%s", PrintCaller(e.caller),
                         Quoted(e.role), e.index ? absl::StrCat(*e.index) : "any",
                         e.incarnation.value(), PrintTime(e.deadline));
}
std::string PrintFields(const coord::ReportProgress& e) {
  return absl::StrFormat("%s step=%s phase=%s", PrintCaller(e.caller),
                         e.step ? absl::StrCat(*e.step) : "none", Quoted(e.phase));
}
std::string PrintFields(const coord::WatchJob& e) {
  return absl::StrFormat("%s after=%d", PrintCaller(e.caller), e.after);
}
std::string PrintFields(const coord::AgreeOnIndex& e) {
  return absl::StrFormat("%s member=%d name=%s counter=%d index=%d stride=%d timeout=%s members=%s",
                         PrintCaller(e.caller), e.member.value(), Quoted(e.name), e.counter,
                         e.index, e.stride, absl::FormatDuration(e.timeout), Members(e.members));
}
std::string PrintFields(const coord::CompareAndSetKey& e) {
  return absl::StrFormat(
      "%s key=%s absent=%d expected=%s revision=%s value=%s", PrintCaller(e.caller), Quoted(e.key),
      e.expected.absent, e.expected.value ? Quoted(*e.expected.value) : "none",
      e.expected.revision ? absl::StrCat(*e.expected.revision) : "none", Quoted(e.value));
}
std::string PrintFields(const coord::MaxKey& e) {
  return absl::StrFormat("%s key=%s number=%d", PrintCaller(e.caller), Quoted(e.key), e.number);
}
std::string PrintFields(const coord::GetKeys& e) {
  return absl::StrFormat("%s keys=%s", PrintCaller(e.caller), absl::StrJoin(e.keys, ","));
}
std::string PrintFields(const coord::WatchKeys& e) {
  return absl::StrFormat("%s key=%s after=%d", PrintCaller(e.caller), Quoted(e.key), e.after);
}
std::string PrintFields(const coord::Restored&) { return ""; }
std::string PrintFields(const coord::DeadlineReached&) { return ""; }
std::string PrintFields(const coord::Stop&) { return ""; }

// In the order of `coord::Event`.
constexpr const char* kEventNames[] = {"RegisterMember",
                                       "Heartbeat",
                                       "PollForError",
                                       "ReportError",
                                       "LeaveJob",
                                       "ResetMember",
                                       "WatchMembers",
                                       "GetMemberStates",
                                       "SetKey",
                                       "GetKey",
                                       "TryGetKey",
                                       "IncrementKey",
                                       "ListKeys",
                                       "DeleteKey",
                                       "ArriveAtBarrier",
                                       "CancelBarrier",
                                       "GetAliveMembers",
                                       "CallLeft",
                                       "OpenSession",
                                       "SessionBroke",
                                       "AnsweredThrough",
                                       "CloseSession",
                                       "JoinJob",
                                       "ReportProgress",
                                       "WatchJob",
                                       "AgreeOnIndex",
                                       "CompareAndSetKey",
                                       "MaxKey",
                                       "GetKeys",
                                       "WatchKeys",
                                       "ProcessStarted",
                                       "ProcessEnded",
                                       "ProcessStopped",
                                       "ProcessContinued",
                                       "DeadlineReached",
                                       "Restored",
                                       "Stop"};
static_assert(std::size(kEventNames) == std::variant_size_v<coord::Event>);

}  // namespace

std::string PrintReply(const coord::Reply& reply) {
  const std::string call = absl::StrCat("call ", reply.call.value(), ": ");
  if (reply.error) return absl::StrCat(call, PrintError(*reply.error));
  return absl::StrCat(call, "OK ", PrintAnswer(reply.answer));
}

std::string PrintEffects(const coord::Effects& effects) {
  std::string text;
  for (const coord::Reply& reply : effects.replies) {
    absl::StrAppend(&text, PrintReply(reply), "\n");
  }
  for (const coord::Notice& notice : effects.notices) {
    constexpr const char* kSeverities[] = {"info", "warning", "error"};
    absl::StrAppend(&text, kSeverities[static_cast<size_t>(notice.severity)], ": ", notice.text,
                    "\n");
  }
  return text;
}

std::string PrintEvent(const coord::Event& event) {
  std::string fields = std::visit([](const auto& e) { return PrintFields(e); }, event);
  if (fields.empty()) return kEventNames[event.index()];
  return absl::StrCat(kEventNames[event.index()], " ", fields);
}

}  // namespace lockstep::testing

namespace lockstep::coord {

void PrintTo(const Reply& reply, std::ostream* out) { *out << testing::PrintReply(reply); }
void PrintTo(const AliveMember& member, std::ostream* out) {
  *out << member.member << "#" << member.incarnation;
}
void PrintTo(Reason reason, std::ostream* out) { *out << ReasonName(reason); }
void PrintTo(MemberCondition condition, std::ostream* out) {
  *out << MemberConditionName(condition);
}
void PrintTo(AttemptState state, std::ostream* out) { *out << AttemptStateName(state); }

}  // namespace lockstep::coord
