#include "lockstep/data/worker/introduction.h"

#include <utility>

#include "lockstep/rendezvous/transport/card.h"
#include "lockstep/rendezvous/transport/memory_segment.h"
#include "lockstep/wire/native/codec.h"

namespace lockstep::data {
namespace {

constexpr uint64_t kProofBytes = 4096;

}  // namespace

absl::StatusOr<Introduction> Introduction::Make(runtime::Loop& loop, transport::Arena* arena,
                                                bool secure) {
  Introduction made;
  transport::Card card = transport::MakeCard();
  if (arena != nullptr) {
    // A system that forbids such memory is found here, and not with the first element.
    const auto proof = transport::MemorySegment::CreateShared(kProofBytes);
    auto share = proof.ok() ? MemoryShare::Start(loop, *arena)
                            : absl::StatusOr<std::unique_ptr<MemoryShare>>(proof.status());
    if (share.ok()) {
      made.share = *std::move(share);
      card.unix_address = made.share->unix_address();
      card.transports = {"shm"};
    } else {
      made.why_not_shared = std::string(share.status().message());
    }
  }
  if (secure) {
    auto identity = WorkerIdentity::Make();
    if (!identity.ok()) return identity.status();
    made.identity = *std::move(identity);
    made.identity->WriteTo(card);
  }
  if (made.share != nullptr || secure) made.card = wire::native::Encode(card);
  return made;
}

}  // namespace lockstep::data
