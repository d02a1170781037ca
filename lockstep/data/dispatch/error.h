// Why a request to the data service was refused, or an iteration failed. Pure.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"

namespace lockstep::dispatch {

// Reasons are words of a contract: never renamed, never reused. What a worker says of a source or
// of a segment ("path_refused", "source_changed", "record_poisoned"...) is passed through as it is.
namespace reason {
inline constexpr std::string_view kInvalidArgument = "invalid_argument";
inline constexpr std::string_view kDatasetUnknown = "dataset_unknown";
inline constexpr std::string_view kDatasetDiffers = "dataset_differs";
inline constexpr std::string_view kUnknownIteration = "unknown_iteration";
inline constexpr std::string_view kIterationDiffers = "iteration_differs";
inline constexpr std::string_view kUnknownConsumer = "unknown_consumer";
inline constexpr std::string_view kConsumerReplaced = "consumer_replaced";
inline constexpr std::string_view kConsumerLeaseEnded = "consumer_lease_ended";
inline constexpr std::string_view kConsumerIndexTaken = "consumer_index_taken";
inline constexpr std::string_view kCursorMismatch = "cursor_mismatch";
inline constexpr std::string_view kCursorInvalid = "cursor_invalid";
inline constexpr std::string_view kShardingUnsupported = "sharding_unsupported";
inline constexpr std::string_view kTooFewFiles = "too_few_files";
inline constexpr std::string_view kWorkerVersion = "worker_version";
inline constexpr std::string_view kWorkerReplaced = "worker_replaced";
inline constexpr std::string_view kLimitReached = "limit_reached";
inline constexpr std::string_view kSegmentFailed = "segment_failed";
inline constexpr std::string_view kIterationCollected = "iteration_collected";
inline constexpr std::string_view kAckNeeded = "ack_needed";
inline constexpr std::string_view kIterationSetAside = "iteration_set_aside";
inline constexpr std::string_view kUnavailable = "unavailable";
inline constexpr std::string_view kCancelled = "cancelled";
inline constexpr std::string_view kStopped = "service_stopped";
}  // namespace reason

struct Error {
  absl::StatusCode code = absl::StatusCode::kUnknown;
  std::string reason;
  std::string message;
  bool operator==(const Error&) const = default;
};

// Shared, since one failure answers many. Null means success.
using ErrorPtr = std::shared_ptr<const Error>;

// `reason`: one of the words above.
inline ErrorPtr MakeError(absl::StatusCode code, std::string_view reason, std::string message) {
  return std::make_shared<const Error>(
      Error{.code = code, .reason = std::string(reason), .message = std::move(message)});
}

}  // namespace lockstep::dispatch
