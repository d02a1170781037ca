// Messages of the data service to what lockstep/data/dispatch decides about, and back: the server
// reads requests and writes answers, a consumer the other way round. Pure.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/data/dispatch/effects.h"
#include "lockstep/data/dispatch/events.h"
#include "lockstep/wire/native/data_service_messages.h"

namespace lockstep::wire::native {

// --- What the server reads ---

// INVALID_ARGUMENT: a value that nothing stands for. The call is put in.
absl::StatusOr<dispatch::OpenIteration> EventOf(OpenIteration& from, CallId call);
absl::StatusOr<dispatch::ConsumerPoll> EventOf(ConsumerPoll& from, CallId call);
absl::StatusOr<dispatch::CloseConsumer> EventOf(CloseConsumer& from, CallId call);
absl::StatusOr<dispatch::WorkerPoll> EventOf(WorkerPoll& from, CallId call);

// --- What the server writes ---

// The bytes of the message that answers; empty for std::monostate.
std::string EncodeAnswer(const dispatch::Answer& answer);
// With its reason, as `ReasonOf` finds it.
absl::Status StatusOf(const dispatch::Error& error);

// --- What a consumer writes ---

OpenIteration MessageOf(const dispatch::OpenIteration& from);
ConsumerPoll MessageOf(const dispatch::ConsumerPoll& from);
CloseConsumer MessageOf(const dispatch::CloseConsumer& from);
IterationSpec MessageOf(const dispatch::IterationSpec& from);

// --- What a consumer reads ---

absl::StatusOr<dispatch::IterationOpened> AnswerOf(OpenIterationReply& from);
// INVALID_ARGUMENT: a phase that is not known here.
absl::StatusOr<dispatch::Assignment> AnswerOf(ConsumerPollReply& from);
dispatch::ErrorPtr ErrorOf(const absl::Status& status);

// An error within a message; code 0 is none.
DataError MessageOf(const dispatch::ErrorPtr& error);
dispatch::ErrorPtr ErrorOf(const std::optional<DataError>& from);

}  // namespace lockstep::wire::native
