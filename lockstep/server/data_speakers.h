// Over which links workers and consumers speak.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "lockstep/data/dispatch/ids.h"
#include "lockstep/platform/link/server.h"

namespace lockstep::server {

// A worker or consumer may speak over several links, one after another; its link is the one over
// which it has spoken last.
//
// Threads: loop-confined. Bounds: one entry for each worker and consumer that the dispatcher took.
class DataSpeakers {
 public:
  using ConsumerKey = std::pair<dispatch::IterationId, dispatch::ConsumerId>;
  // Who has spoken over one link.
  struct OfLink {
    std::set<dispatch::WorkerId> workers;
    std::set<ConsumerKey> consumers;
  };

  // This is its link from now on; one over which it spoke before does not end it any more.
  void Speaks(link::LinkId link, dispatch::WorkerId worker);
  void Speaks(link::LinkId link, const ConsumerKey& consumer);
  // The consumer has closed, over this link.
  void Closes(link::LinkId link, const ConsumerKey& consumer);

  // False: it never spoke, or its last link has ended.
  bool HasLink(dispatch::WorkerId worker) const { return workers_.contains(worker); }
  bool HasLink(const ConsumerKey& consumer) const { return consumers_.contains(consumer); }
  // Whether a worker or consumer speaks over it.
  bool IsUsed(link::LinkId link) const;
  size_t workers() const { return workers_.size(); }

  // The link has ended: returns who has spoken over it, for each of whom `Leaves` tells more.
  OfLink EndLink(link::LinkId link);
  // True: this was its link, and it has none any more. False: it has spoken over another since.
  bool Leaves(link::LinkId link, dispatch::WorkerId worker);
  // The same for a consumer.
  bool Leaves(link::LinkId link, const ConsumerKey& consumer);

 private:
  absl::flat_hash_map<link::LinkId, OfLink> links_;
  std::map<dispatch::WorkerId, link::LinkId> workers_;
  std::map<ConsumerKey, link::LinkId> consumers_;
};

}  // namespace lockstep::server
