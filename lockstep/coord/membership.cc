#include "lockstep/coord/membership.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"

namespace lockstep::coord {
namespace {

// What a label costs beside its texts; what a member's texts, and its places in tables, cost about.
constexpr size_t kLabelBytes = 96;
constexpr size_t kMemberTextBytes = 512;

}  // namespace

Membership::Membership(JobRecord& job)
    : job_(job),
      members_(job.options.size),
      lives_(job),
      vacancies_(job),
      detector_(job, vacancies_) {}

std::optional<MemberIndex> Membership::Find(Incarnation incarnation) const {
  const std::optional<MemberIndex> member = lives_.Find(incarnation);
  // The member may have begun another life since; then its former one names no member.
  if (!member || Get(*member).incarnation != incarnation) return std::nullopt;
  return member;
}

void Membership::BeginLife(Time now, MemberIndex member, Incarnation incarnation,
                           std::string peer) {
  BeginLife(now, {.member = member, .incarnation = incarnation, .peer = std::move(peer)});
}

void Membership::BeginLife(Time now, const Admission& admission) {
  const MemberIndex member = admission.member;
  LOCKSTEP_CHECK(!job_.lives.IsFormer(member, admission.incarnation));
  Member& m = members_.Mutable(member.value());
  // A retry of the same life is no change for watchers.
  if (!m.ever_registered || m.incarnation != admission.incarnation) ++version_;
  const bool is_new = job_.lives.Begin(member, admission.incarnation);
  // What the former life had come to is not the new one's.
  if (is_new) {
    m.was_in = false;
    m.came = now;
    m.step.reset();
    m.phase.clear();
  }
  // Before the incarnation is replaced: the former one is what is forgotten.
  lives_.Begin(member, admission.incarnation,
               m.ever_registered ? std::optional(m.incarnation) : std::nullopt, is_new);
  m.incarnation = admission.incarnation;
  m.ever_registered = true;
  detector_.Begin(now, member, admission.native());
  // In another state `since` belongs to that state.
  if (m.state == MemberState::kDisconnected) m.since = now;
  m.peer = admission.peer;
  m.role = admission.role;
  m.session = admission.session;
  SetLabels(m, admission.labels);
  job_.places.Mutable(member.value()) = {.host = admission.host, .pid = admission.pid};
  job_.recoverable[member.value()] = admission.recoverable ? 1 : 0;
  NoteChange(member);
  LOCKSTEP_DCHECK(Find(admission.incarnation) == member);  // so that its requests name it
}

void Membership::SetLabels(Member& member, const Labels& labels) {
  const auto bytes = [](const Labels& all) {
    size_t sum = 0;
    for (const auto& [name, value] : all) sum += kLabelBytes + name.size() + value.size();
    return sum;
  };
  // Unsigned, so a difference below zero comes out right in the sum.
  LOCKSTEP_DCHECK(label_bytes_ >= bytes(member.labels));
  label_bytes_ += bytes(labels) - bytes(member.labels);
  member.labels = labels;
}

size_t Membership::memory() const {
  return members_.memory() + detector_.memory() + lives_.memory() + vacancies_.memory() +
         label_bytes_ + lives_.size() * kMemberTextBytes;
}

void Membership::GaveUpRegistering(Time now, MemberIndex member) {
  members_.Mutable(member.value()).since = now;
  vacancies_.NoteMayBeFree(member);
  job_.changes.Touch(member);
}

void Membership::NoteChange(MemberIndex member) {
  job_.changes.Touch(member);
  // Whatever changes about a member may free its place; a note too many costs a look.
  vacancies_.NoteMayBeFree(member);
  changed_.insert(member);
}

void Membership::RecordChanges(Effects& out) {
  for (MemberIndex member : changed_) out.records.push_back(RecordOf(member));
  changed_.clear();
}

bool Membership::NoteProgress(MemberIndex member, std::optional<int64_t> step,
                              const std::string& phase) {
  Member& m = members_.Mutable(member.value());
  // Reports repeat themselves; watchers are woken only by news.
  const bool news = (step && step != m.step) || (!phase.empty() && phase != m.phase);
  if (!news) return false;
  if (step) m.step = step;
  if (!phase.empty()) m.phase = phase;
  job_.changes.Touch(member);
  return true;
}

void Membership::Connect(Time now, MemberIndex member) {
  Member& m = members_.Mutable(member.value());
  LOCKSTEP_CHECK(m.ever_registered);
  LOCKSTEP_DCHECK(m.state != MemberState::kConnected);
  // A member that comes back leaves its error behind.
  m.error = nullptr;
  m.grace_until.reset();
  SetState(now, member, MemberState::kConnected);
  ever_connected_ = true;
}

void Membership::Fail(Time now, MemberIndex member, ErrorPtr error) {
  Member& m = members_.Mutable(member.value());
  // The first error of a member stays (3).
  if (m.state == MemberState::kError) return;
  LOCKSTEP_DCHECK(error != nullptr);
  m.error = std::move(error);
  SetState(now, member, MemberState::kError);
}

void Membership::Disconnect(Time now, MemberIndex member) {
  Member& m = members_.Mutable(member.value());
  m.error = nullptr;
  // As long as a message of it may still be on its way.
  m.grace_until = now + job_.options.heartbeat_timeout;
  SetState(now, member, MemberState::kDisconnected);
}

void Membership::SetState(Time now, MemberIndex member, MemberState state) {
  Member& m = members_.Mutable(member.value());
  if (m.state == MemberState::kConnected) {
    // Before the state changes: exactly connected members are watched (2).
    detector_.Unwatch(member);
    LOCKSTEP_DCHECK(connected_ > 0);
    --connected_;
  }
  failed_ += (state == MemberState::kError) - (m.state == MemberState::kError);
  m.state = state;
  m.since = now;
  ++version_;
  NoteChange(member);
  if (state == MemberState::kConnected) {
    m.was_in = true;
    ++connected_;
    // After the state: the watch begins with all of it in place.
    detector_.Watch(now, member);
  }
  LOCKSTEP_DCHECK(connected_ + failed_ <= static_cast<size_t>(size()));
}

void Membership::Restore(Time at, const record::MemberChanged& record) {
  const MemberIndex index = record.member;
  Member& m = members_.Mutable(index.value());
  // First out: a record may say of a connected member that it is connected anew.
  if (m.state == MemberState::kConnected) SetState(at, index, MemberState::kDisconnected);
  // 0: the member never came, and failed with the attempt.
  if (record.life != 0) {
    const bool is_new = job_.lives.Restore(index, record.incarnation, record.life);
    lives_.Begin(index, record.incarnation,
                 m.ever_registered ? std::optional(m.incarnation) : std::nullopt, is_new);
    m.incarnation = record.incarnation;
    m.ever_registered = true;
    m.came.reset();
  }
  m.error = record.state == MemberState::kError ? record.error : nullptr;
  detector_.Begin(at, index, !record.session.none());
  m.grace_until.reset();
  if (record.left) m.grace_until = at + job_.options.heartbeat_timeout;
  m.peer = record.peer;
  m.role = record.role;
  m.session = record.session;
  SetLabels(m, record.labels);
  job_.places.Mutable(index.value()) = {.host = record.host, .pid = record.pid};
  job_.recoverable[index.value()] = record.recoverable ? 1 : 0;
  // Last: the watch that it begins reads what is set above.
  SetState(at, index, record.state);
  if (record.state == MemberState::kConnected || record.left) ever_connected_ = true;
}

void Membership::Restored(Time now, int64_t version) {
  LOCKSTEP_DCHECK(version > 0);
  // Above all versions that the server before may have told.
  version_ += version;
  // What records have said needs no record again.
  changed_.clear();
  for (int32_t i = 0; i < size(); ++i) detector_.ServerRestarted(now, MemberIndex(i));
}

record::MemberChanged Membership::RecordOf(MemberIndex member) const {
  const Member& m = Get(member);
  const PlaceRecord& place = job_.places[member.value()];
  return {.member = member,
          .state = m.state,
          .incarnation = m.incarnation,
          .life = m.ever_registered ? job_.lives.Count(member) : 0,
          .error = m.error,
          .left = m.state == MemberState::kDisconnected && m.grace_until.has_value(),
          .recoverable = job_.recoverable[member.value()] != 0,
          .role = m.role,
          .peer = m.peer,
          .host = place.host,
          .pid = place.pid,
          .labels = m.labels,
          .session = m.session};
}

void Membership::Snapshot(std::vector<TimedRecord>& records) const {
  for (int32_t i = 0; i < size(); ++i) {
    const MemberIndex index(i);
    const Member& member = Get(index);
    // Nothing is known of it; the default state says the same.
    if (!member.ever_registered && member.state == MemberState::kDisconnected) continue;
    std::vector<record::MemberChanged> former = job_.lives.RecordsOf(index);
    // Lives of earlier attempts go with those attempts.
    const size_t here = lives_.CountHere(index);
    LOCKSTEP_DCHECK(here <= former.size());
    for (size_t k = former.size() - here; k + 1 < former.size(); ++k) {
      records.push_back({member.since, std::move(former[k])});
    }
    record::MemberChanged now_is = RecordOf(index);
    if (member.state == MemberState::kError && member.was_in) {
      // Of one that failed nobody sees whether it was in before.
      record::MemberChanged was = now_is;
      was.state = MemberState::kConnected;
      was.error = nullptr;
      records.push_back({member.since, std::move(was)});
    }
    records.push_back({member.since, std::move(now_is)});
  }
}

std::string DescribeMissing(Time now, const JobRecord& job, const Membership& membership,
                            std::vector<MemberIndex> members) {
  const auto last_heard = [&](MemberIndex member) {
    return membership.detector().Of(member).signs.last_heard();
  };
  const auto silent_longer = [&](MemberIndex a, MemberIndex b) {
    return std::tuple(membership.Get(a).ever_registered, last_heard(a), a) <
           std::tuple(membership.Get(b).ever_registered, last_heard(b), b);
  };
  const size_t named = std::min(members.size(), kNamesInErrorMax);
  // Only as many as are named are put in order.
  std::partial_sort(members.begin(), members.begin() + static_cast<ptrdiff_t>(named), members.end(),
                    silent_longer);
  std::string text;
  for (size_t i = 0; i < named; ++i) {
    const Membership::Member& m = membership.Get(members[i]);
    absl::StrAppend(&text, i == 0 ? "" : ", ");
    if (!m.ever_registered) {
      // What is known of its lives and processes is of other attempts, unless one runs.
      const bool runs = job.processes[members[i].value()].running;
      absl::StrAppend(&text, runs ? job.Describe(members[i]) : job.Name(members[i]),
                      " (never came)");
      continue;
    }
    absl::StrAppend(&text, job.Describe(members[i]), " (last heard ",
                    FormatSpan(now - last_heard(members[i])), " ago");
    const std::string& host = job.places[members[i].value()].host;
    if (!host.empty() && job.places[members[i].value()].pid == 0) {
      absl::StrAppend(&text, ", on ", host);
    }
    if (m.step) absl::StrAppend(&text, ", at step ", *m.step);
    const std::string doing = job.waits.Describe(now, members[i]);
    if (!doing.empty()) {
      absl::StrAppend(&text, ", ", doing);
    } else if (!m.phase.empty()) {
      absl::StrAppend(&text, ", is in phase '", m.phase, "'");
    }
    absl::StrAppend(&text, ")");
  }
  if (members.size() > named) absl::StrAppend(&text, " +", members.size() - named, " more");
  return text;
}

}  // namespace lockstep::coord
