// Why a definition or the run of a segment failed. Pure.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace lockstep::plan {

// Why, in one stable word that programs test. Never renamed, never reused.
inline constexpr std::string_view kDefinitionInvalid = "definition_invalid";
inline constexpr std::string_view kPathRefused = "path_refused";
inline constexpr std::string_view kSourceMissing = "source_missing";
inline constexpr std::string_view kSourceChanged = "source_changed";
inline constexpr std::string_view kRecordPoisoned = "record_poisoned";
inline constexpr std::string_view kFunctionFailed = "function_failed";
inline constexpr std::string_view kFunctionRefused = "function_refused";

// An error that carries its reason where the link's answers look for it (wire::native::ReasonOf).
absl::Status Error(absl::StatusCode code, std::string_view reason, const std::string& message);
absl::Status Invalid(const std::string& message);  // INVALID_ARGUMENT, kDefinitionInvalid

// The reason put in by `Error`; empty when there is none.
std::string ReasonOf(const absl::Status& status);

}  // namespace lockstep::plan
