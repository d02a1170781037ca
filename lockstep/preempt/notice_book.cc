#include "lockstep/preempt/notice_book.h"

#include <algorithm>
#include <set>

#include "lockstep/base/check.h"

namespace lockstep::preempt {
namespace {

// Two clocks that are read one after the other, and a wall clock that is being slewed, move a
// moment by less than this.
constexpr absl::Duration kSlack = absl::Seconds(2);

bool SameMoment(const std::optional<Time>& a, const std::optional<Time>& b) {
  if (!a || !b) return !a && !b;
  return absl::AbsDuration(*a - *b) <= kSlack;
}

}  // namespace

SourceEvent NoticeBook::EventOf(const Told& told, Time now, bool withdrawn) const {
  SourceEvent event{.source = source_,
                    .id = told.notice.id,
                    .kind = told.notice.kind,
                    .text = told.notice.text,
                    .withdrawn = withdrawn};
  if (told.death && !told.death->is_infinite()) {
    event.left = std::max(absl::ZeroDuration(), *told.death - now);
  }
  return event;
}

std::vector<SourceEvent> NoticeBook::Update(Time now, const std::vector<Notice>& standing) {
  std::set<std::string> ids;
  for (const Notice& notice : standing) ids.insert(notice.id);

  std::vector<SourceEvent> events;
  for (auto it = told_.begin(); it != told_.end();) {
    if (ids.count(it->first) > 0) {
      ++it;
    } else {
      events.push_back(EventOf(it->second, now, true));
      it = told_.erase(it);
    }
  }
  for (const Notice& notice : standing) {
    const auto found = told_.find(notice.id);
    if (found == told_.end() && told_.size() >= kNoticesMax) continue;
    std::optional<Time> death = notice.death;
    if (!death && notice.lead) {
      // Counted from the first sight, however often it is seen again.
      const bool as_before = found != told_.end() && found->second.notice.lead == notice.lead &&
                             !found->second.notice.death;
      death = as_before ? found->second.death : now + *notice.lead;
    }
    if (found != told_.end() && found->second.notice.kind == notice.kind &&
        found->second.notice.text == notice.text && SameMoment(found->second.death, death)) {
      continue;
    }
    Told& told = told_[notice.id];
    told = {.notice = notice, .death = death};
    events.push_back(EventOf(told, now, false));
  }
  LOCKSTEP_DCHECK(told_.size() <= kNoticesMax);
  return events;
}

}  // namespace lockstep::preempt
