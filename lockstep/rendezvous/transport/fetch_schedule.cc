#include "lockstep/rendezvous/transport/fetch_schedule.h"

#include <algorithm>

#include "lockstep/base/check.h"

namespace lockstep::transport {

std::optional<FetchSchedule::At> FetchSchedule::Find(rendezvous::OpId op) {
  const auto found = std::find_if(running_.begin(), running_.end(),
                                  [op](const Running& each) { return each.what.op == op; });
  if (found == running_.end()) return std::nullopt;
  return found;
}

void FetchSchedule::Forget(At running) {
  LOCKSTEP_DCHECK(running->way != Way::kPlace);
  for (Chunk& chunk : asked_) {
    if (chunk.of == running) chunk.of.reset();
  }
  if (next_ == running) ++next_;
  running_.erase(running);
}

std::optional<FetchSchedule::Chunk> FetchSchedule::Ask(bool reads) {
  // Until all that run were looked at in a row and have nothing left to ask for.
  for (size_t looked = 0; looked < running_.size() && in_flight_ < options_->window_bytes;
       ++looked) {
    if (next_ == running_.end()) next_ = running_.begin();
    const std::optional<Chunk> chunk = NextChunk(next_++, reads);
    if (!chunk.has_value()) continue;
    asked_.push_back(*chunk);
    if (!chunk->place) in_flight_ += chunk->bytes;
    return chunk;
  }
  return std::nullopt;
}

std::optional<FetchSchedule::Chunk> FetchSchedule::NextChunk(At running, bool reads) {
  LOCKSTEP_DCHECK(running->asked <= running->what.bytes);
  const uint64_t left = running->what.bytes - running->asked;
  if (left == 0) return std::nullopt;
  if (running->way == Way::kUndecided) {
    const bool place = reads && left >= options_->place_bytes_min;
    if (place && places_ >= options_->places_max) return std::nullopt;
    running->way = place ? Way::kPlace : Way::kBytes;
    if (place) ++places_;
  }
  const bool place = running->way == Way::kPlace;
  const Chunk chunk = {.of = running,
                       .lease = running->what.lease.value(),
                       .offset = running->asked,
                       .bytes = place ? left : std::min(options_->chunk_bytes, left),
                       .place = place};
  running->asked += chunk.bytes;
  return chunk;
}

FetchSchedule::Chunk FetchSchedule::TakeFront() {
  LOCKSTEP_DCHECK(!asked_.empty());
  const Chunk chunk = asked_.front();
  asked_.pop_front();
  LOCKSTEP_DCHECK(chunk.place || in_flight_ >= chunk.bytes);
  if (!chunk.place) in_flight_ -= chunk.bytes;
  return chunk;
}

bool FetchSchedule::LeavePlace(Running& running) {
  if (running.way != Way::kPlace) return false;
  running.way = Way::kBytes;
  LOCKSTEP_DCHECK(places_ > 0);
  --places_;
  return true;
}

void FetchSchedule::Reset() {
  asked_.clear();
  in_flight_ = 0;
  places_ = 0;
  for (Running& running : running_) {
    running.asked = running.come;
    running.way = Way::kUndecided;
  }
  next_ = running_.begin();
}

}  // namespace lockstep::transport
