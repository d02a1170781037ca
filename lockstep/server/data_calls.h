// The requests to the data service that are open.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "lockstep/base/ids.h"
#include "lockstep/platform/link/server.h"

namespace lockstep::server {

struct DataCall {
  link::Responder responder;
  link::LinkId link;
  // Of a dataset that is being registered.
  std::string identity;
  std::string element_spec;
};

// Knows each open request by the dispatcher's call and by its link's id for it.
//
// Threads: loop-confined. Bounds: those of the links (requests_in_flight_max).
class DataCalls {
 public:
  // Under an id that none had before.
  CallId Open(const link::Request& request, link::Responder responder);
  // Null: it is answered, or whoever asked has gone.
  DataCall* Find(CallId call);
  // Takes it out, to be answered; none: as above.
  std::optional<DataCall> Close(CallId call);
  // The call of the link's request; none: it is not open.
  std::optional<CallId> OfRequest(link::LinkId link, uint64_t request) const;

  // Whether the link has asked anything and has not ended.
  bool HasLink(link::LinkId link) const { return of_link_.contains(link); }
  // The link has ended. Returns its open calls in the order of its ids for them; they stay open.
  std::vector<CallId> EndLink(link::LinkId link);
  size_t size() const { return calls_.size(); }

 private:
  uint64_t last_ = 0;
  absl::flat_hash_map<CallId, DataCall> calls_;
  absl::flat_hash_map<link::LinkId, std::map<uint64_t, CallId>> of_link_;  // by the request's id
};

}  // namespace lockstep::server
