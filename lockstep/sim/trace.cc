#include "lockstep/sim/trace.h"

#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lockstep/sim/describe.h"

namespace lockstep::sim {
namespace {

void AddError(Hash& hash, const coord::Error& error) {
  hash.Add(static_cast<uint64_t>(error.code));
  hash.Add(static_cast<uint64_t>(error.reason));
  hash.Add(error.message);
  hash.Add(error.from_service);
  hash.Add(error.origin ? error.origin->value() : -1);
  hash.Add(error.reported);
  if (error.barrier) {
    hash.Add(error.barrier->id);
    hash.Add(error.barrier->counter);
  }
  hash.Add(error.right_service ? error.right_service->value() : 0);
}

struct AnswerHasher {
  Hash& hash;

  void operator()(std::monostate) {}
  void operator()(const coord::Registered& a) { hash.Add(a.service.value()); }
  void operator()(const coord::HeartbeatTaken& a) { hash.Add(a.service.value()); }
  void operator()(const coord::KeyRead& a) { AddEntry(a.entry); }
  void operator()(const coord::KeysListed& a) {
    for (const coord::KeyValue& entry : a.entries) AddEntry(entry);
  }
  void operator()(const coord::BarrierPassed& a) { hash.Add(a.counter); }
  void operator()(const coord::AliveMembers& a) {
    for (const coord::AliveMember& alive : *a.members) {
      hash.Add(alive.member.value());
      hash.Add(alive.incarnation.value());
    }
  }
  void operator()(const coord::MembersWatched& a) {
    hash.Add(a.version);
    for (const coord::MemberStatus& status : *a.members) {
      hash.Add(status.member.value());
      hash.Add(status.incarnation.value());
      hash.Add(static_cast<uint64_t>(status.state));
      if (status.error) AddError(hash, *status.error);
    }
  }
  void operator()(const coord::KeyWritten& a) { hash.Add(a.revision); }
  void operator()(const coord::KeySwapped& a) {
    hash.Add(a.swapped);
    if (a.entry) AddEntry(*a.entry);
  }
  void operator()(const coord::KeysDeleted& a) {
    hash.Add(a.deleted);
    hash.Add(a.revision);
  }
  void operator()(const coord::KeysChanged& a) {
    hash.Add(a.revision);
    for (const coord::KeyValue& entry : a.changes) AddEntry(entry);
  }
  void operator()(const coord::BarriersListed& a) {
    hash.Add(a.open);
    for (const coord::BarrierView& barrier : a.barriers) hash.Add(barrier.barrier.id);
  }
  void operator()(const coord::IndexAgreed& a) { hash.Add(a.index); }
  void operator()(const coord::PreemptionNoted& a) { hash.Add(a.preemption); }
  void operator()(const coord::PreemptionChanged& a) {
    hash.Add(a.state->version);
    hash.Add(a.state->sync_step.value_or(-1));
  }
  void operator()(const coord::SessionOpened& a) { hash.Add(a.resumed); }
  void operator()(const coord::Joined& a) {
    hash.Add(a.name);
    hash.Add(a.service.value());
  }
  void operator()(const coord::JobChanged& a) {
    hash.Add(a.change->version);
    for (const coord::MemberView& member : a.change->members) hash.Add(member.name);
  }
  void AddEntry(const coord::KeyValue& entry) {
    hash.Add(entry.key);
    if (entry.value) hash.Add(*entry.value);
  }
};

}  // namespace

void Hash::Add(absl::string_view bytes) {
  Add(bytes.size());
  for (; bytes.size() >= 8; bytes.remove_prefix(8)) {
    uint64_t word;
    std::memcpy(&word, bytes.data(), 8);
    Add(word);
  }
  uint64_t rest = 0;
  std::memcpy(&rest, bytes.data(), bytes.size());
  Add(rest);
}

void Trace::Push(Entry entry) {
  entries_.push_back(std::move(entry));
  if (entries_.size() > kTraceLinesMax) entries_.pop_front();
}

void Trace::Event(int64_t step, Time now, const coord::Event& event) {
  Push({.step = step, .now = now, .event = event});
  if (verbose_) {
    std::fputs(EventText(entries_.back()).c_str(), stdout);
    std::fflush(stdout);
  }
}

void Trace::Effects(const coord::Effects& effects) {
  for (const coord::Reply& reply : effects.replies) {
    hash_.Add(reply.call.value());
    if (reply.error) {
      AddError(hash_, *reply.error);
    } else {
      hash_.Add(reply.answer.index());
      std::visit(AnswerHasher{hash_}, reply.answer);
    }
  }
  for (const coord::LogEntry& entry : effects.log) hash_.Add(entry.text);
  entries_.back().effects = effects;
  if (verbose_) std::fputs(EffectsText(effects).c_str(), stdout);
}

void Trace::Note(Time now, std::string text) {
  Push({.now = now, .note = std::move(text)});
  if (verbose_) std::fputs(Text(entries_.back()).c_str(), stdout);
}

std::string Trace::EventText(const Entry& entry) {
  return absl::StrFormat("%6d %s %s\n", entry.step, FormatTime(entry.now), Describe(entry.event));
}

std::string Trace::EffectsText(const coord::Effects& effects) {
  std::string text;
  for (const coord::Reply& reply : effects.replies) {
    absl::StrAppend(&text, "         -> ", Describe(reply), "\n");
  }
  for (const coord::LogEntry& entry : effects.log) {
    absl::StrAppend(&text, "         .. ", entry.text, "\n");
  }
  return text;
}

std::string Trace::Text(const Entry& entry) {
  if (!entry.note.empty()) {
    return absl::StrFormat("     * %s %s\n", FormatTime(entry.now), entry.note);
  }
  return EventText(entry) + EffectsText(entry.effects);
}

std::string Trace::Tail() const {
  std::string text;
  for (const Entry& entry : entries_) text += Text(entry);
  return text;
}

}  // namespace lockstep::sim
