#include "lockstep/stock/tcpstore/key_listing.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/string_view.h"
#include "lockstep/base/check.h"

namespace lockstep::tcpstore {

void KeyListings::Add(ConnectionId connection, size_t cost) {
  LOCKSTEP_DCHECK(!Has(connection));
  listings_.push_back({.connection = connection, .cost = cost});
  bytes_ += cost;
}

bool KeyListings::Has(ConnectionId connection) const {
  return std::any_of(listings_.begin(), listings_.end(),
                     [&](const Listing& is) { return is.connection == connection; });
}

void KeyListings::Forget(ConnectionId connection) {
  const auto found = std::find_if(listings_.begin(), listings_.end(),
                                  [&](const Listing& is) { return is.connection == connection; });
  if (found == listings_.end()) return;
  bytes_ -= found->cost;
  listings_.erase(found);
}

std::optional<KeyListings::Ended> KeyListings::ListSlice(const KeySpace& keys,
                                                         size_t name_bytes_max) {
  LOCKSTEP_CHECK(!listings_.empty());
  Listing& listing = listings_.front();
  packed_.clear();
  size_t left = kNamesSliceMax;
  bool whole = true;
  keys.VisitNames(listing.from, [&](absl::string_view name) {
    if (left == 0 || packed_.size() >= kBytesSliceMax) {
      listing.from.assign(name.data(), name.size());
      return whole = false;
    }
    --left;
    ++listing.names.count;
    listing.name_bytes += name.size();
    PackName(name, packed_);
    return true;
  });
  // A copy, which takes no more memory than it needs.
  listing.names.packed.push_back(std::make_shared<const std::string>(packed_));
  // Keys that came since it was added may have made it longer than it was to be.
  const size_t holds = listing.name_bytes + listing.names.count * sizeof(uint64_t);
  if (holds > listing.cost) bytes_ += holds - std::exchange(listing.cost, holds);
  if (!whole && listing.name_bytes <= name_bytes_max) return std::nullopt;
  Ended ended = {.connection = listing.connection,
                 .names = std::move(listing.names),
                 .name_bytes = listing.name_bytes};
  bytes_ -= listing.cost;
  listings_.pop_front();
  return ended;
}

}  // namespace lockstep::tcpstore
