#include "lockstep/server/held_answers.h"

#include <utility>

#include "lockstep/base/check.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::server {

link::Responder HeldAnswers::Hold(link::Responder responder) {
  const uint64_t id = next_++;
  link::Responder held(weak_from_this(), responder.link(), responder.kind(), id);
  responders_.emplace(id, std::move(responder));
  return held;
}

void HeldAnswers::Answer(link::LinkId /*link*/, link::RequestKind /*kind*/, uint64_t id,
                         link::Payload payload) {
  auto found = responders_.extract(id);
  LOCKSTEP_DCHECK(!found.empty());  // a Responder answers once
  LOCKSTEP_DCHECK(payload.also.empty());
  commits_.Follow(
      [responder = std::move(found.mapped()), payload = std::move(payload)](bool durable) mutable {
        if (durable) return responder.Send(std::move(payload));
        responder.Fail(wire::native::WithReason(
            absl::UnavailableError(
                "the server cannot write its state and is shutting down: this request may or may "
                "not have taken effect; retry when the server is back"),
            "service_stopped"));
      });
}

}  // namespace lockstep::server
