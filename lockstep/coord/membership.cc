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

bool BeganEarlier(const Membership::Loss& a, const Membership::Loss& b) {
  return std::pair(a.since, a.member) < std::pair(b.since, b.member);
}

}  // namespace

void Heartbeats::Note(Time now) {
  if (last_ && now - *last_ < kHeartbeatAgain) return;
  if (last_) {
    periods_[next_] = std::min(now - *last_, kPeriodMax);
    next_ = (next_ + 1) % kPeriodsKept;
    seen_ = true;
  }
  last_ = now;
}

absl::Duration Heartbeats::period() const {
  return seen_ ? *std::max_element(periods_.begin(), periods_.end()) : kUnseenPeriod;
}

Membership::Membership(JobRecord& job)
    : job_(job), members_(job.options.size), taken_from_(job.options.size) {}

std::optional<MemberIndex> Membership::Find(Incarnation incarnation) const {
  auto life = by_incarnation_.find(incarnation);
  if (life == by_incarnation_.end() || Get(life->second).incarnation != incarnation) {
    return std::nullopt;
  }
  return life->second;
}

size_t Membership::LivesHere(MemberIndex member) const {
  return std::min(Get(member).lives_here, job_.incarnations[member.value()].size());
}

bool Membership::Knew(MemberIndex member, Incarnation incarnation) const {
  const JobRecord::Lives& known = job_.incarnations[member.value()];
  const auto here = known.end() - static_cast<ptrdiff_t>(LivesHere(member));
  return std::find(here, known.end(), incarnation) != known.end();
}

std::string Membership::DescribeMissing(Time now, std::vector<MemberIndex> members) const {
  auto silent_longer = [this](MemberIndex a, MemberIndex b) {
    return std::tuple(Get(a).ever_registered, Get(a).last_heard, a) <
           std::tuple(Get(b).ever_registered, Get(b).last_heard, b);
  };
  const size_t named = std::min(members.size(), kNamesInErrorMax);
  std::partial_sort(members.begin(), members.begin() + named, members.end(), silent_longer);
  std::string text;
  for (size_t i = 0; i < named; ++i) {
    const Member& m = Get(members[i]);
    absl::StrAppend(&text, i == 0 ? "" : ", ");
    if (!m.ever_registered) {
      // What is known of its lives and processes is of other attempts, unless one runs.
      const bool runs = job_.processes[members[i].value()].running;
      absl::StrAppend(&text, runs ? job_.Describe(members[i]) : job_.Name(members[i]),
                      " (never came)");
      continue;
    }
    absl::StrAppend(&text, job_.Describe(members[i]), " (last heard ",
                    FormatSpan(now - m.last_heard), " ago");
    const std::string& host = job_.places[members[i].value()].host;
    if (!host.empty() && job_.places[members[i].value()].pid == 0) {
      absl::StrAppend(&text, ", on ", host);
    }
    if (m.step) absl::StrAppend(&text, ", at step ", *m.step);
    const std::string doing = job_.waits.Describe(now, members[i]);
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

void Membership::BeginLife(Time now, MemberIndex member, Incarnation incarnation,
                           std::string peer) {
  BeginLife(now, {.member = member, .incarnation = incarnation, .peer = std::move(peer)});
}

void Membership::BeginLife(Time now, const Admission& admission) {
  const MemberIndex member = admission.member;
  LOCKSTEP_CHECK(!job_.IsFormerLife(member, admission.incarnation));
  Member& m = Its(member);
  if (!m.ever_registered || m.incarnation != admission.incarnation) ++version_;
  const bool is_new = job_.NoteLife(member, admission.incarnation);
  if (is_new) {
    m.was_in = false;
    m.step.reset();
    m.phase.clear();
  }
  SetLife(member, admission.incarnation, is_new);
  m.last_heard = now;
  if (m.state == MemberState::kDisconnected) m.since = now;
  m.peer = admission.peer;
  m.role = admission.role;
  m.session = admission.session;
  SetLabels(m, admission.labels);
  job_.places.Mutable(Place(member)) = {.host = admission.host, .pid = admission.pid};
  job_.recoverable[member.value()] = admission.recoverable ? 1 : 0;
  NoteChange(member);
}

void Membership::SetLabels(Member& member, const Labels& labels) {
  const auto bytes = [](const Labels& all) {
    size_t sum = 0;
    for (const auto& [name, value] : all) sum += kLabelBytes + name.size() + value.size();
    return sum;
  };
  label_bytes_ += bytes(labels) - bytes(member.labels);
  member.labels = labels;
}

size_t Membership::memory() const {
  return members_.memory() + label_bytes_ + taken_from_.size() * sizeof(taken_from_[0]) +
         by_incarnation_.size() * kMemberTextBytes;
}

void Membership::GaveUpRegistering(Time now, MemberIndex member) {
  Its(member).since = now;
  NoteMayBeFree(member);
  job_.Touch(member);
}

void Membership::SetLife(MemberIndex member, Incarnation incarnation, bool is_new) {
  Member& m = Its(member);
  if (is_new || m.lives_here == 0) m.lives_here = std::min(m.lives_here + 1, kLivesKeptMax);
  const auto former = by_incarnation_.find(m.incarnation);
  if (m.ever_registered && m.incarnation != incarnation && former != by_incarnation_.end() &&
      former->second == member) {
    by_incarnation_.erase(former);
  }
  by_incarnation_[incarnation] = member;
  m.incarnation = incarnation;
  m.ever_registered = true;
}

void Membership::NoteChange(MemberIndex member) {
  job_.Touch(member);
  NoteMayBeFree(member);
  Member& m = Its(member);
  if (std::exchange(m.noted, true)) return;
  changed_.push_back(member);
}

void Membership::NoteMayBeFree(MemberIndex member) {
  const int32_t first = job_.RoleOf(member).first;
  taken_from_[first] = std::min(taken_from_[first], member.value() - first);
}

void Membership::RecordChanges(Effects& out) {
  std::sort(changed_.begin(), changed_.end());
  for (MemberIndex member : changed_) out.records.push_back(RecordOf(member));
  ForgetChanges();
}

void Membership::ForgetChanges() {
  for (MemberIndex member : changed_) Its(member).noted = false;
  changed_.clear();
}

bool Membership::NoteProgress(MemberIndex member, std::optional<int64_t> step,
                              const std::string& phase) {
  Member& m = Its(member);
  const bool news = (step && step != m.step) || (!phase.empty() && phase != m.phase);
  if (!news) return false;
  if (step) m.step = step;
  if (!phase.empty()) m.phase = phase;
  job_.Touch(member);
  return true;
}

void Membership::Connect(Time now, MemberIndex member) {
  Member& m = Its(member);
  LOCKSTEP_CHECK(m.ever_registered);
  m.error = nullptr;
  m.last_heard = now;
  m.grace_until.reset();
  SetState(now, member, MemberState::kConnected);
  ever_connected_ = true;
}

void Membership::Fail(Time now, MemberIndex member, ErrorPtr error) {
  Member& m = Its(member);
  if (m.state == MemberState::kError) return;
  m.error = std::move(error);
  SetState(now, member, MemberState::kError);
}

void Membership::Disconnect(Time now, MemberIndex member) {
  Member& m = Its(member);
  m.error = nullptr;
  m.grace_until = now + job_.options.heartbeat_timeout;
  SetState(now, member, MemberState::kDisconnected);
}

void Membership::SetState(Time now, MemberIndex member, MemberState state) {
  Member& m = Its(member);
  if (m.state == MemberState::kConnected) {
    Withdraw(member);
    broken_.erase(member);
    restarted_ -= m.link == Link::kRestarted ? 1 : 0;
    m.link = Link::kUp;
    m.suspect = false;
    m.told = false;
    m.polls = false;
    --connected_;
  }
  failed_ += (state == MemberState::kError) - (m.state == MemberState::kError);
  m.state = state;
  m.since = now;
  ++version_;
  NoteChange(member);
  if (state == MemberState::kConnected) {
    m.was_in = true;
    m.polled = now;
    m.heartbeats = Heartbeats(now);
    ++connected_;
    Enter(member);
  }
}

void Membership::SetLink(MemberIndex member, Link link, Time since, Time due) {
  Member& m = Its(member);
  restarted_ += (link == Link::kRestarted) - (m.link == Link::kRestarted);
  m.link = link;
  m.link_since = since;
  m.link_due = due;
  if (link == Link::kBroken) {
    broken_.insert(member);
  } else {
    broken_.erase(member);
  }
  m.suspect = m.suspect || link != Link::kUp;
  Withdraw(member);
  Enter(member);
  if (m.broke()) NoteMayBeFree(member);
  job_.Touch(member);
}

void Membership::BecomeSuspect(MemberIndex member, Time since) {
  Member& m = Its(member);
  m.suspect = true;
  // Whoever is stopped is known to be suspect.
  if (m.told || job_.processes[member.value()].stopped) return;
  m.told = true;
  turns_.push_back({member, true, m.link, since});
}

void Membership::BecomeWell(Time now, MemberIndex member) {
  Member& m = Its(member);
  m.suspect = false;
  EnterEarlier(member);
  job_.Touch(member);
  if (std::exchange(m.told, false)) turns_.push_back({member, false, Link::kUp, now});
}

void Membership::HeardHeartbeat(Time now, MemberIndex member) {
  Member& m = Its(member);
  m.heartbeats.Note(now);
  Heard(now, member);
  EnterEarlier(member);
}

void Membership::SetPolls(Time now, MemberIndex member, bool polls) {
  Member& m = Its(member);
  if (m.state != MemberState::kConnected) return;
  m.polls = polls;
  m.polled = now;
  EnterEarlier(member);
}

std::vector<Membership::Turn> Membership::TakeTurns() {
  std::vector<Turn> turns = std::exchange(turns_, {});
  std::erase_if(turns, [this](const Turn& turn) {
    const Member& m = Get(turn.member);
    return m.state != MemberState::kConnected || m.suspect != turn.suspect;
  });
  return turns;
}

void Membership::ConnectionBroke(Time now, MemberIndex member) {
  const Member& m = Get(member);
  if (m.state != MemberState::kConnected || m.broke()) return;
  const absl::Duration grace =
      m.native() ? job_.options.session_grace : job_.options.connection_grace;
  SetLink(member, Link::kBroken, now, now + grace);
  BecomeSuspect(member, now);
}

void Membership::ConnectionSilent(Time now, MemberIndex member) {
  const Member& m = Get(member);
  if (m.state != MemberState::kConnected || m.link != Link::kUp) return;
  SetLink(member, Link::kSilent, now, Time::Infinite());
  BecomeSuspect(member, now);
}

void Membership::ConnectionBack(Time now, MemberIndex member) {
  if (Get(member).link == Link::kUp) return;
  BecomeWell(now, member);  // first, since who is suspect has longer
  SetLink(member, Link::kUp, Time(), Time::Infinite());
}

void Membership::Restore(Time at, const record::MemberChanged& record) {
  const MemberIndex index = record.member;
  Member& m = Its(index);
  if (m.state == MemberState::kConnected) SetState(at, index, MemberState::kDisconnected);
  if (record.life != 0) {
    const bool is_new = job_.NoteLife(index, record.incarnation);
    if (is_new) job_.lives[index.value()] = std::max(job_.lives[index.value()], record.life);
    SetLife(index, record.incarnation, is_new);
  }
  m.error = record.state == MemberState::kError ? record.error : nullptr;
  m.last_heard = at;
  m.grace_until.reset();
  if (record.left) m.grace_until = at + job_.options.heartbeat_timeout;
  m.peer = record.peer;
  m.role = record.role;
  m.session = record.session;
  SetLabels(m, record.labels);
  job_.places.Mutable(Place(index)) = {.host = record.host, .pid = record.pid};
  job_.recoverable[index.value()] = record.recoverable ? 1 : 0;
  SetState(at, index, record.state);
  if (record.state == MemberState::kConnected || record.left) ever_connected_ = true;
}

void Membership::Restored(Time now, int64_t version) {
  version_ += version;
  ForgetChanges();
  for (int32_t i = 0; i < size(); ++i) {
    const MemberIndex member(i);
    if (Get(member).state != MemberState::kConnected) continue;
    Member& m = Its(member);
    m.last_heard = now;
    m.polled = now;
    m.heartbeats = Heartbeats();
    SetLink(member, Link::kRestarted, now, now + job_.options.restart_grace);
  }
}

record::MemberChanged Membership::RecordOf(MemberIndex member) const {
  const Member& m = Get(member);
  const PlaceRecord& place = job_.places[member.value()];
  return {.member = member,
          .state = m.state,
          .incarnation = m.incarnation,
          .life = m.ever_registered ? job_.lives[member.value()] : 0,
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
    if (!member.ever_registered && member.state == MemberState::kDisconnected) continue;
    std::vector<record::MemberChanged> former = job_.KeptLives(index);
    const size_t here = LivesHere(index);
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

Time Membership::SilentSince(const Member& member) {
  if (member.native() || member.polls) return member.last_heard;
  return std::max(member.last_heard, member.polled);
}

absl::Duration Membership::Patience(const Member& member) const {
  const absl::Duration usual = job_.options.heartbeat_timeout;
  if (member.native() || !member.polls) return usual;
  return std::max(usual, kSilentPeriods * member.heartbeats.period());
}

std::string Membership::DescribeSilence(Time now, const Member& member) const {
  const std::string text =
      absl::StrCat("nothing was heard of it for ", FormatSpan(now - member.last_heard));
  if (Patience(member) <= job_.options.heartbeat_timeout) return text;
  return absl::StrCat(text, "; it is lost if nothing is heard of it for another ",
                      FormatSpan(LostAt(member) - now));
}

Time Membership::SuspectAt(const Member& member) const {
  // Doubt comes early when it is not known what to expect.
  const bool known = member.heartbeats.seen();
  const absl::Duration patience = known ? Patience(member) : job_.options.heartbeat_timeout;
  return SilentSince(member) + kSilentIsSuspect * patience;
}

Time Membership::LostAt(const Member& member) const {
  const Time silent = SilentSince(member) + Patience(member);
  return member.broke() ? std::min(silent, member.link_due) : silent;
}

Time Membership::TimeOut(const Member& member) const {
  return member.suspect ? LostAt(member) : SuspectAt(member);
}

void Membership::Enter(MemberIndex member) {
  Member& m = Its(member);
  m.entry = TimeOut(m);
  time_outs_.emplace(*m.entry, member);
}

void Membership::EnterEarlier(MemberIndex member) {
  const Member& m = Get(member);
  if (!m.entry || *m.entry <= TimeOut(m)) return;
  Withdraw(member);
  Enter(member);
}

void Membership::Withdraw(MemberIndex member) {
  Member& m = Its(member);
  LOCKSTEP_CHECK(m.entry.has_value());
  time_outs_.erase({*m.entry, member});
  m.entry.reset();
}

Time Membership::NextDeadline() const {
  return time_outs_.empty() ? Time::Infinite() : time_outs_.begin()->first;
}

std::vector<Membership::Loss> Membership::Overdue(Time now) {
  std::vector<MemberIndex> due;
  for (auto it = time_outs_.begin(); it != time_outs_.end() && it->first <= now; ++it) {
    due.push_back(it->second);
  }
  std::vector<Loss> losses;
  for (MemberIndex member : due) {
    const Member& m = Get(member);
    if (!m.suspect && TimeOut(m) <= now) {
      BecomeSuspect(member, m.last_heard);
      job_.Touch(member);
    }
    if (TimeOut(m) > now) {  // heard of since it was entered, or only suspect yet
      Withdraw(member);
      Enter(member);
    } else {
      losses.push_back({member, m.broke() ? m.link_since : m.last_heard, m.link});
    }
  }
  std::sort(losses.begin(), losses.end(), BeganEarlier);
  return losses;
}

std::vector<Membership::Loss> Membership::BrokenSince(Time since) const {
  std::vector<Loss> losses;
  for (MemberIndex member : broken_) {
    const Member& m = Get(member);
    if (m.link_since <= since) losses.push_back({member, m.link_since, m.link});
  }
  std::sort(losses.begin(), losses.end(), BeganEarlier);
  return losses;
}

}  // namespace lockstep::coord
