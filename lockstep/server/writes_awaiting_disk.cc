#include "lockstep/server/writes_awaiting_disk.h"

#include <type_traits>
#include <utility>
#include <variant>

#include "absl/strings/str_format.h"
#include "lockstep/base/check.h"

namespace lockstep::server {
namespace {

// A request beside its texts.
constexpr size_t kEventBytes = 256;
constexpr size_t kNameBytes = 48;

template <class Event, class... Kinds>
constexpr bool kIsOneOf = (std::is_same_v<Event, Kinds> || ...);

template <class Event>
constexpr bool WritesKeys() {
  if constexpr (requires { Event::kTraits; }) return Event::kTraits.writes;
  return false;
}

// What may become a large record: a write of a key, or a value that a barrier hands to all.
bool Writes(const coord::Event& event) {
  if (const auto* arrive = std::get_if<coord::ArriveAtBarrier>(&event)) {
    return arrive->value.has_value() && !arrive->value->empty();
  }
  return std::visit([](const auto& is) { return WritesKeys<std::decay_t<decltype(is)>>(); }, event);
}

// Whose turn it is in its session; none: it has none, or need not wait for it.
SessionId InOrderOf(const coord::Event& event) {
  return std::visit(
      [](const auto& is) -> SessionId {
        using Event = std::decay_t<decltype(is)>;
        if constexpr (kIsOneOf<Event, coord::Heartbeat, coord::ReportProgress>) return {};
        if constexpr (requires { is.caller; }) return is.caller.session;
        return {};
      },
      event);
}

}  // namespace

size_t GrowthOf(const coord::Event& event) {
  if (const auto* set = std::get_if<coord::SetKey>(&event)) {
    return kEventBytes + set->key.size() + set->value.size();
  }
  if (const auto* swap = std::get_if<coord::CompareAndSetKey>(&event)) {
    return kEventBytes + swap->key.size() + swap->value.size();
  }
  if (const auto* get = std::get_if<coord::GetKeys>(&event)) {
    size_t bytes = kEventBytes;
    for (const std::string& key : get->keys) bytes += kNameBytes + key.size();
    return bytes;
  }
  if (const auto* arrive = std::get_if<coord::ArriveAtBarrier>(&event)) {
    return kEventBytes + arrive->id.size() + (arrive->value ? arrive->value->size() : 0);
  }
  return kEventBytes;
}

bool MayGrow(const coord::Event& event) {
  return std::visit(
      [](const auto& is) {
        using Event = std::decay_t<decltype(is)>;
        return WritesKeys<Event>() ||
               kIsOneOf<Event, coord::GetKey, coord::GetKeys, coord::WatchKeys, coord::WatchMembers,
                        coord::WatchJob, coord::WatchPreemption, coord::ArriveAtBarrier,
                        coord::AgreeOnIndex, coord::GetAliveMembers, coord::RegisterMember,
                        coord::JoinJob, coord::OpenSession>;
      },
      event);
}

bool WritesAwaitingDisk::Concerns(const coord::Event& event) const {
  if (Crowded() && Writes(event)) return true;
  if (held_.empty()) return false;
  const SessionId session = InOrderOf(event);
  return !session.none() && sessions_.contains(session);
}

coord::ErrorPtr WritesAwaitingDisk::Delay(coord::Event& event) {
  const size_t bytes = GrowthOf(event);
  // What comes behind writes has as much room again, so that it keeps its place.
  const size_t most = Writes(event) ? queue_bytes_max_ : 2 * queue_bytes_max_;
  if (bytes_ + bytes > most && !held_.empty()) {
    return coord::MakeError(
        absl::StatusCode::kResourceExhausted, coord::Reason::kLimitExceeded,
        absl::StrFormat("the disk cannot keep up: %d bytes are queued, plus %d of this job "
                        "(journal_queue_bytes_max %d); nothing was changed, retry later",
                        commits_.queued_bytes(), bytes_, queue_bytes_max_));
  }
  const SessionId session = InOrderOf(event);
  if (!session.none()) ++sessions_[session];
  bytes_ += bytes;
  held_.push_back(std::move(event));
  if (held_.size() == 1) AwaitDisk();
  return nullptr;
}

// When all that was handed in until now is durable, there may be room.
void WritesAwaitingDisk::AwaitDisk() {
  commits_.Follow([this, alive = alive_](bool durable) {
    if (alive.expired()) return;
    if (!durable) return TakeUpAll();
    while (!held_.empty() && !Crowded()) TakeUpFirst();
    if (!held_.empty()) AwaitDisk();
  });
}

void WritesAwaitingDisk::TakeUpFirst() {
  coord::Event event = std::move(held_.front());
  held_.pop_front();
  LOCKSTEP_DCHECK(bytes_ >= GrowthOf(event));
  bytes_ -= GrowthOf(event);
  if (const SessionId session = InOrderOf(event); !session.none()) {
    const auto found = sessions_.find(session);
    LOCKSTEP_DCHECK(found != sessions_.end() && found->second > 0);
    if (--found->second == 0) sessions_.erase(found);
  }
  LOCKSTEP_DCHECK(!held_.empty() || (bytes_ == 0 && sessions_.empty()));
  take_up_(std::move(event));
}

void WritesAwaitingDisk::TakeUpAll() {
  while (!held_.empty()) TakeUpFirst();
}

}  // namespace lockstep::server
