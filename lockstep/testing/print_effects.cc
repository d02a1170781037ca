#include "lockstep/testing/print_effects.h"

#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lockstep/base/type_name.h"
#include "lockstep/testing/print_fields.h"

namespace lockstep::testing {
namespace {

template <class... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};
template <class... Fs>
Overloaded(Fs...) -> Overloaded<Fs...>;

std::string PrintEntry(const coord::KeyValue& entry) {
  return absl::StrCat(Show(entry.key), "=", Show(entry.value),
                      entry.revision == 0 ? "" : absl::StrCat("@", entry.revision));
}

std::string PrintEntries(const std::vector<coord::KeyValue>& entries) {
  return absl::StrJoin(entries, " ", [](std::string* out, const coord::KeyValue& entry) {
    out->append(PrintEntry(entry));
  });
}

std::string PrintStatus(const coord::MemberStatus& status) {
  std::string text =
      absl::StrCat(status.member.value(), "#", status.incarnation.value(), ":", Show(status.state));
  if (status.error) absl::StrAppend(&text, Show(status.error));
  return text;
}

std::string PrintMember(const coord::MemberView& view) {
  std::string text =
      absl::StrCat(view.name, ":", std::string(coord::MemberConditionName(view.condition)),
                   " why=", Show(view.why), " peer=", Show(view.peer), " host=", Show(view.host),
                   " pid=", view.pid, " step=", Show(view.step), " phase=", Show(view.phase));
  if (!view.labels.empty()) absl::StrAppend(&text, " labels=", Show(view.labels));
  return absl::StrCat(text, view.native ? " native" : "");
}

std::string PrintChange(const coord::JobChange& change) {
  std::string text = absl::StrCat("job changed ", change.version,
                                  change.snapshot ? " snapshot" : "", " attempt=", change.attempt,
                                  " ", std::string(coord::AttemptStateName(change.state)));
  for (const coord::MemberView& member : change.members) {
    absl::StrAppend(&text, " {", PrintMember(member), "}");
  }
  for (const coord::ErrorView& error : change.errors) {
    absl::StrAppend(&text, " error(", Show(error.reason), " ", Show(error.message), ")");
  }
  return text;
}

std::string PrintValues(const coord::MemberValues& values) {
  if (!values) return "";
  return absl::StrCat(" ", absl::StrJoin(*values, " ", [](std::string* out, const auto& each) {
                        absl::StrAppend(out, each.member.value(), "=", Show(each.value));
                      }));
}

std::string PrintAnswer(const coord::Answer& answer) {
  return std::visit(
      Overloaded{
          [](std::monostate) -> std::string { return "done"; },
          [](const coord::Registered& a) { return absl::StrCat("registered ", a.service.value()); },
          [](const coord::HeartbeatTaken& a) {
            return absl::StrCat("heartbeat taken ", a.service.value());
          },
          [](const coord::KeyRead& a) { return absl::StrCat("key ", PrintEntry(a.entry)); },
          [](const coord::KeysListed& a) {
            return absl::StrCat("keys ", PrintEntries(a.entries), a.more ? " more" : "",
                                a.revision == 0 ? "" : absl::StrCat(" at ", a.revision));
          },
          [](const coord::KeyWritten& a) { return absl::StrCat("written at ", a.revision); },
          [](const coord::KeySwapped& a) {
            return absl::StrCat(a.swapped ? "swapped " : "not swapped ",
                                a.entry ? PrintEntry(*a.entry) : "nothing");
          },
          [](const coord::KeysDeleted& a) {
            return absl::StrCat("deleted ", a.deleted, " at ", a.revision);
          },
          [](const coord::KeysChanged& a) {
            return absl::StrCat("changed at ", a.revision, a.snapshot ? " snapshot " : " ",
                                PrintEntries(a.changes));
          },
          [](const coord::BarrierPassed& a) {
            return absl::StrCat("barrier passed ", a.counter, PrintValues(a.values));
          },
          [](const coord::BarriersListed& a) {
            std::string text = absl::StrCat("open barriers ", a.open);
            for (const coord::BarrierView& barrier : a.barriers) {
              absl::StrAppend(&text, " ", barrier.barrier.id, "::", barrier.barrier.counter, " [",
                              barrier.waiting.size(), "/",
                              barrier.waiting.size() + barrier.awaited.size(), "]");
            }
            return text;
          },
          [](const coord::IndexAgreed& a) {
            return absl::StrCat("index agreed ", a.index, " use ", a.counter);
          },
          [](const coord::PreemptionNoted& a) { return absl::StrCat("noted ", a.preemption); },
          [](const coord::PreemptionChanged& a) {
            return absl::StrCat("preemption ", Show(a.state));
          },
          [](const coord::SessionOpened& a) {
            return absl::StrCat("session opened", a.resumed ? " again" : "", " attempt=", a.attempt,
                                " size=", a.size);
          },
          [](const coord::Joined& a) {
            return absl::StrCat("joined ", a.name, " member=", a.member.value(),
                                " role=", Show(a.role), " index=", a.index,
                                " service=", a.service.value(), " attempt=", a.attempt,
                                " size=", a.size, a.recoverable ? " recoverable" : "");
          },
          [](const coord::JobChanged& a) { return PrintChange(*a.change); },
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
          }},
      answer);
}

template <class Variant>
std::string PrintNamed(const Variant& variant) {
  const std::string fields = std::visit([](const auto& e) { return PrintFields(e); }, variant);
  return absl::StrCat(std::string(kTypeNames<Variant>[variant.index()]), fields.empty() ? "" : " ",
                      fields);
}

}  // namespace

std::string PrintError(const coord::Error& error) {
  std::string text =
      absl::StrCat(Show(error.code), " ", Show(error.reason), " ", Show(error.message));
  if (!error.from_service) absl::StrAppend(&text, " unmarked");
  if (error.origin) absl::StrAppend(&text, " origin=", error.origin->value());
  if (error.reported) absl::StrAppend(&text, " reported");
  if (error.barrier) {
    absl::StrAppend(&text, " barrier=", Show(error.barrier->id), "::", error.barrier->counter);
  }
  if (error.right_service) absl::StrAppend(&text, " right=", error.right_service->value());
  if (!error.missing.empty()) absl::StrAppend(&text, " missing=", error.missing);
  return text;
}

std::string PrintReply(const coord::Reply& reply) {
  const std::string call = absl::StrCat("call ", reply.call.value(), ": ");
  if (reply.error) return absl::StrCat(call, PrintError(*reply.error));
  return absl::StrCat(call, "OK ", PrintAnswer(reply.answer));
}

std::string PrintRecord(const coord::Record& record) { return PrintNamed(record); }

std::string PrintEffects(const coord::Effects& effects) {
  std::string text;
  for (const coord::Record& record : effects.records) {
    absl::StrAppend(&text, "record: ", PrintRecord(record), "\n");
  }
  for (const coord::Reply& reply : effects.replies) {
    absl::StrAppend(&text, PrintReply(reply), "\n");
  }
  for (const coord::LogEntry& notice : effects.log) {
    constexpr const char* kSeverities[] = {"info", "warning", "error"};
    absl::StrAppend(&text, kSeverities[static_cast<size_t>(notice.severity)], ": ", notice.text,
                    "\n");
  }
  return text;
}

std::string PrintEvent(const coord::Event& event) { return PrintNamed(event); }

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
