#include "lockstep/sim/describe.h"

#include <cstddef>
#include <optional>
#include <variant>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "lockstep/base/type_name.h"

namespace lockstep::sim {
namespace {

constexpr size_t kValueBytesShown = 24;

std::string Hex(uint64_t id) { return absl::StrFormat("%04x", id & 0xffff); }

std::string Quote(absl::string_view text) {
  const bool cut = text.size() > kValueBytesShown;
  return absl::StrCat("'", absl::CHexEscape(text.substr(0, kValueBytesShown)), cut ? "..." : "",
                      "'");
}

std::string List(const std::vector<MemberIndex>& members) {
  return absl::StrCat("[",
                      absl::StrJoin(members, " ",
                                    [](std::string* out, MemberIndex member) {
                                      absl::StrAppend(out, member.value());
                                    }),
                      "]");
}

// The fields that belong to one kind only.
std::string Rest(const coord::RegisterMember& e) {
  return absl::StrCat(" call #", e.call.value(), " life=", Hex(e.incarnation.value()),
                      " until=", FormatTime(e.deadline));
}
std::string Rest(const coord::Heartbeat& e) {
  return absl::StrCat(" beats=", Hex(e.incarnation.value()));
}
std::string Rest(const coord::ReportError& e) {
  return absl::StrCat(" ", absl::StatusCodeToString(e.code), " ", Quote(e.message));
}
std::string Rest(const coord::WatchMembers& e) {
  return e.version ? absl::StrCat(" version=", *e.version) : "";
}
std::string Rest(const coord::SetKey& e) {
  return absl::StrCat(" ", Quote(e.key), " = ", Quote(e.value), e.overwrite ? " overwrite" : "");
}
std::string Rest(const coord::GetKey& e) { return absl::StrCat(" ", Quote(e.key)); }
std::string Rest(const coord::TryGetKey& e) { return absl::StrCat(" ", Quote(e.key)); }
std::string Rest(const coord::DeleteKey& e) { return absl::StrCat(" ", Quote(e.key)); }
std::string Rest(const coord::ListKeys& e) { return absl::StrCat(" ", Quote(e.directory)); }
std::string Rest(const coord::IncrementKey& e) {
  return absl::StrCat(" ", Quote(e.key), " by ", e.increment);
}
std::string Rest(const coord::ArriveAtBarrier& e) {
  return absl::StrCat(" id=", Quote(e.id), " counter=", e.counter,
                      " timeout=", absl::FormatDuration(e.timeout), " of ", List(e.members));
}
std::string Rest(const coord::CancelBarrier& e) {
  return absl::StrCat(" id=", Quote(e.id), e.counter ? absl::StrCat(" counter=", *e.counter) : "");
}
std::string Rest(const coord::GetAliveMembers& e) { return absl::StrCat(" of ", List(e.members)); }
std::string Rest(const coord::OpenSession& e) {
  return absl::StrCat(" #", e.call.value(), " session=", Hex(e.session.low),
                      e.resume ? " resume" : "");
}
std::string Rest(const coord::SessionBroke& e) {
  return absl::StrCat(" session=", Hex(e.session.low), e.silent ? " silent" : "");
}
std::string Rest(const coord::AnsweredThrough& e) {
  return absl::StrCat(" session=", Hex(e.session.low), " through=", e.number);
}
std::string Rest(const coord::JoinJob& e) {
  return absl::StrCat(" index=", e.index ? absl::StrCat(*e.index) : "any",
                      " life=", Hex(e.incarnation.value()), " until=", FormatTime(e.deadline));
}
std::string Rest(const coord::ReportProgress& e) {
  return e.step ? absl::StrCat(" step=", *e.step) : "";
}
std::string Rest(const coord::WatchJob& e) { return absl::StrCat(" after=", e.after); }
std::string Rest(const coord::AgreeOnIndex& e) {
  return absl::StrCat(" name=", Quote(e.name), " counter=", e.counter, " index=", e.index,
                      " stride=", e.stride, " of ", List(e.members));
}
std::string Rest(const coord::CompareAndSetKey& e) {
  return absl::StrCat(" ", Quote(e.key), " to ", Quote(e.value), " if ",
                      e.expected.value      ? absl::StrCat("it is ", Quote(*e.expected.value))
                      : e.expected.revision ? absl::StrCat("at ", *e.expected.revision)
                                            : "absent");
}
std::string Rest(const coord::MaxKey& e) { return absl::StrCat(" ", Quote(e.key), " ", e.number); }
std::string Rest(const coord::GetKeys& e) { return absl::StrCat(" ", absl::StrJoin(e.keys, " ")); }
std::string Rest(const coord::WatchKeys& e) {
  return absl::StrCat(" ", Quote(e.key), " after=", e.after);
}
std::string Rest(const coord::NotifyPreemption& e) {
  return absl::StrCat(" ", e.source, "/", e.event, " act=", static_cast<int>(e.act), " of ",
                      List(e.subjects),
                      " left=", e.left ? absl::FormatDuration(*e.left) : "unknown");
}
std::string Rest(const coord::WatchPreemption& e) {
  return absl::StrCat(" after=", e.after, e.answers ? " answers" : "");
}
std::string Rest(const coord::AnswerHold& e) {
  return absl::StrCat(" preemption=", e.preemption,
                      " first=", e.first ? absl::StrCat(*e.first) : "none", " stride=", e.stride);
}
std::string Rest(const coord::ReportSave& e) {
  return absl::StrCat(" preemption=", e.preemption, " ", coord::SyncStateName(e.state),
                      " step=", e.step ? absl::StrCat(*e.step) : "none");
}
std::string Rest(const coord::CallLeft& e) { return absl::StrCat(" call #", e.call.value()); }
std::string Rest(const coord::ProcessStarted& e) { return absl::StrCat(" pid=", e.pid); }
std::string Rest(const coord::ProcessEnded& e) {
  return absl::StrCat(" pid=", e.pid, " exit=", e.exit_code, " signal=", e.signal);
}
std::string Rest(const coord::ProcessEnding& e) { return absl::StrCat(" pid=", e.pid); }
std::string Rest(const coord::ProcessStopped& e) { return absl::StrCat(" pid=", e.pid); }
std::string Rest(const coord::ProcessContinued& e) { return absl::StrCat(" pid=", e.pid); }
std::string Rest(const coord::HostLost& e) { return absl::StrCat(" host=", e.host); }
std::string Rest(const coord::RunBegan& e) { return absl::StrCat(" size=", e.size); }
// Nothing besides who asks.
std::string Rest(const coord::PollForError&) { return ""; }
std::string Rest(const coord::LeaveJob&) { return ""; }
std::string Rest(const coord::ResetMember&) { return ""; }
std::string Rest(const coord::GetMemberStates&) { return ""; }
std::string Rest(const coord::ListBarriers&) { return ""; }
std::string Rest(const coord::CloseSession&) { return ""; }
std::string Rest(const coord::DeadlineReached&) { return ""; }
std::string Rest(const coord::Restored&) { return ""; }
std::string Rest(const coord::Stop&) { return ""; }

std::string Text(std::monostate) { return ""; }
std::string Text(const coord::Registered& a) {
  return absl::StrCat(" registered service=", Hex(a.service.value()));
}
std::string Text(const coord::HeartbeatTaken& a) {
  return absl::StrCat(" heard service=", Hex(a.service.value()));
}
std::string Text(const coord::KeyRead& a) {
  return absl::StrCat(" ", Quote(a.entry.key), " = ",
                      a.entry.value ? Quote(*a.entry.value) : "(none)");
}
std::string Text(const coord::KeysListed& a) {
  return absl::StrCat(" ", a.entries.size(), " keys");
}
std::string Text(const coord::BarrierPassed& a) {
  return absl::StrCat(" passed counter=", a.counter);
}
std::string Text(const coord::BarriersListed& a) {
  return absl::StrCat(" ", a.barriers.size(), " of ", a.open, " barriers");
}
std::string Text(const coord::AliveMembers& a) {
  std::vector<MemberIndex> members;
  for (const coord::AliveMember& alive : *a.members) members.push_back(alive.member);
  return absl::StrCat(" alive ", List(members));
}
std::string Text(const coord::KeyWritten& a) { return absl::StrCat(" written at ", a.revision); }
std::string Text(const coord::KeySwapped& a) {
  return absl::StrCat(a.swapped ? " swapped" : " not swapped, it is ",
                      !a.swapped && a.entry ? Quote(*a.entry->value) : "");
}
std::string Text(const coord::KeysDeleted& a) {
  return absl::StrCat(" deleted ", a.deleted, " at ", a.revision);
}
std::string Text(const coord::KeysChanged& a) {
  return absl::StrCat(" ", a.changes.size(), a.snapshot ? " keys" : " changes", " to ", a.revision);
}
std::string Text(const coord::IndexAgreed& a) {
  return absl::StrCat(" agreed ", a.index, " counter=", a.counter);
}
std::string Text(const coord::PreemptionNoted& a) { return absl::StrCat(" noted ", a.preemption); }
std::string Text(const coord::PreemptionChanged& a) {
  return absl::StrCat(" preemption ", a.state->id, " ", coord::PreemptionPhaseName(a.state->phase),
                      " version=", a.state->version);
}
std::string Text(const coord::SessionOpened& a) { return a.resumed ? " resumed" : " opened"; }
std::string Text(const coord::Joined& a) {
  return absl::StrCat(" joined ", a.name, " service=", Hex(a.service.value()));
}
std::string Text(const coord::JobChanged& a) { return absl::StrCat(" job at ", a.change->version); }
std::string Text(const coord::MembersWatched& a) {
  return absl::StrCat(" watched version=", a.version);
}

}  // namespace

std::string FormatTime(Time time) {
  if (time.is_infinite()) return "never";
  return absl::StrFormat("%.6fs", static_cast<double>(time.nanoseconds()) * 1e-9);
}

std::string Describe(const coord::Event& event) {
  std::string text(kTypeNames<coord::Event>[event.index()]);
  std::visit(
      [&text](const auto& e) {
        if constexpr (requires { e.caller; }) {
          absl::StrAppend(&text, " #", e.caller.call.value(),
                          " service=", Hex(e.caller.service.value()),
                          " life=", Hex(e.caller.incarnation.value()));
          if (e.caller.native()) {
            absl::StrAppend(&text, " session=", Hex(e.caller.session.low), ":", e.caller.number);
          }
        }
        if constexpr (requires { e.member; }) {
          const std::optional<MemberIndex> member = e.member;
          if (member) absl::StrAppend(&text, " member=", member->value());
        }
        absl::StrAppend(&text, Rest(e));
      },
      event);
  return text;
}

std::string Describe(const coord::Reply& reply) {
  if (!reply.error) {
    return absl::StrCat("#", reply.call.value(), " OK",
                        std::visit([](const auto& answer) { return Text(answer); }, reply.answer));
  }
  const coord::Error& error = *reply.error;
  return absl::StrCat("#", reply.call.value(), " ", absl::StatusCodeToString(error.code), " ",
                      coord::ReasonName(error.reason), error.from_service ? "" : " (untagged)",
                      error.origin ? absl::StrCat(" about ", error.origin->value()) : "", ": ",
                      error.message);
}

}  // namespace lockstep::sim
