// The stores of torch's clients that a server keeps for a job. For launchers. Public.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace lockstep {

struct TorchStore {
  int64_t attempt = 0;
  std::string address;  // HOST:PORT, for MASTER_ADDR and MASTER_PORT; empty: this server has none
};

// The store of an attempt of the job, counted from 1 by whoever starts the processes; 0: of the
// current one. The first to ask for an attempt begins it, and ends the store of the one before.
// Waits for the server, `timeout` at most. NOT_FOUND: no such job; FAILED_PRECONDITION
// (`attempt_over`): a later attempt has begun; else as link::Client.
absl::StatusOr<TorchStore> OpenTorchStore(const std::string& address, const std::string& job,
                                          int64_t attempt, absl::Duration timeout);

}  // namespace lockstep
