// What a data worker answered to one read, checked against what it was asked. Bytes in, an event
// out: no link, no clock.
#pragma once

#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "lockstep/data/consumer/consumer_machine.h"
#include "lockstep/rendezvous/value.h"
#include "lockstep/wire/native/data_chunk.h"

namespace lockstep::client {

// Finds the chunk that lies at a place of the worker's memory.
using FindShared =
    absl::FunctionRef<absl::StatusOr<rendezvous::MemoryPtr>(const wire::native::ChunkPlace&)>;

struct WorkerAnswer {
  dispatch::ConsumerEvent event;  // ReadAnswered or ReadFailed
  // How the elements came; kPrepared: none did.
  wire::native::AnswerForm form = wire::native::AnswerForm::kPrepared;
};

// `answer`: the worker's, or why there is none; `reached`: the worker itself sent it. Elements keep
// the memory that they lie in.
//
// ReadFailed says `unreachable` when the worker cannot answer now or sends what is no answer: it is
// as good as none. It has the reason `worker_answer_invalid` when the answer is to another
// question. Nothing: the elements lie where `find_shared` finds nothing; ask for bytes.
std::optional<WorkerAnswer> CheckWorkerAnswer(const dispatch::SendRead& read,
                                              absl::StatusOr<std::string> answer, bool reached,
                                              FindShared find_shared);

}  // namespace lockstep::client
