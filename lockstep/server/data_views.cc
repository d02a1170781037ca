#include "lockstep/server/data_views.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "lockstep/base/check.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/data_view.h"

namespace lockstep::server {

DataViews::DataViews(runtime::Loop& loop, ReadPart read, std::function<void()> resized)
    : loop_(loop), read_(std::move(read)), resized_(std::move(resized)), timer_(loop) {}

void DataViews::Ask(Viewed viewed) {
  viewers_.push_back(std::move(viewed));
  if (viewers_.size() > 1 || making_) return;
  if (runtime::MonotonicNow() >= next_view_ || HasCurrent()) return Make();
  timer_.Arm(next_view_, [this] { Make(); });
}

void DataViews::Make() {
  if (making_ || viewers_.empty()) return;
  // They may ask again at once.
  std::vector<Viewed> all = std::exchange(viewers_, {});
  if (HasCurrent() && runtime::MonotonicNow() < next_view_) {
    const SharedView view = view_;
    for (Viewed& each : all) each(view);
    return;
  }
  making_.emplace();
  making_->viewers = std::move(all);
  if (view_ != nullptr) making_->bytes.reserve(view_->size());
  is_current_ = true;
  runtime::RunInTurns(loop_, [this, alive = std::weak_ptr(alive_)] {
    return !alive.expired() && making_ && Step();
  });
}

bool DataViews::Step() {
  LOCKSTEP_DCHECK(making_.has_value());
  const Time begin = runtime::MonotonicNow();
  dispatch::View part;
  const bool more = read_(begin, making_->cursor, part);
  // Encoded, a message of some of the rows is what they add to one that has the others.
  making_->bytes += wire::native::Encode(wire::native::FromDataView(part));
  making_->spent += runtime::MonotonicNow() - begin;
  if (!more) Finish();
  return more;
}

void DataViews::Finish() {
  Making made = *std::exchange(making_, std::nullopt);
  view_ = std::make_shared<const std::string>(std::move(made.bytes));
  next_view_ = runtime::MonotonicNow() + std::max(kViewEvery, kViewPart * made.spent);
  resized_();
  if (!viewers_.empty() && is_current_) {
    std::move(viewers_.begin(), viewers_.end(), std::back_inserter(made.viewers));
    viewers_.clear();
  }
  if (!viewers_.empty()) timer_.Arm(next_view_, [this] { Make(); });
  const SharedView view = view_;
  for (Viewed& each : made.viewers) each(view);
}

void DataViews::AnswerAll() {
  while (making_ || !viewers_.empty()) {
    if (!making_) Make();
    while (making_) Step();
  }
}

}  // namespace lockstep::server
