#include "lockstep/client/torch_store.h"

#include "lockstep/platform/link/client.h"
#include "lockstep/platform/runtime/reached_at.h"
#include "lockstep/wire/native/job_messages.h"

namespace lockstep {

absl::StatusOr<TorchStore> OpenTorchStore(const std::string& address, const std::string& job,
                                          int64_t attempt, absl::Duration timeout) {
  const auto client = link::Client::Connect(address, timeout, {.who = "lockstep launcher"});
  if (!client.ok()) return client.status();
  auto reply = (*client)->Call(wire::native::OpenStore{.job = job, .attempt = attempt}, timeout);
  if (!reply.ok()) return reply.status();
  return TorchStore{.attempt = reply->attempt,
                    .address = runtime::ReachedAt(reply->store, (*client)->server())};
}

}  // namespace lockstep
