// What a worker shows its consumers before they come: the dispatcher hands it to them.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "lockstep/data/worker/memory_share.h"
#include "lockstep/data/worker/worker_identity.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/rendezvous/transport/arena.h"

namespace lockstep::data {

// Its card, and what stands behind it.
struct Introduction {
  std::unique_ptr<MemoryShare> share;              // null: memory is not shared
  std::unique_ptr<const WorkerIdentity> identity;  // null: whoever may connect may read
  std::string card;                                // encoded; empty: neither
  std::string why_not_shared;                      // though there is an arena

  // `arena`: outlives it; null: memory is not to be shared. `secure`: with an identity. Errors: as
  // WorkerIdentity::Make.
  static absl::StatusOr<Introduction> Make(runtime::Loop& loop, transport::Arena* arena,
                                           bool secure);
};

}  // namespace lockstep::data
