// Definitions and manifests of datasets to messages and back. Pure.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "lockstep/data/plan/definition.h"

namespace lockstep::wire::native {

// The bytes of a DataDefinition and of a DataManifest; the same for equal ones.
std::string EncodeDefinition(const plan::Definition& definition);
std::string EncodeManifest(const plan::Manifest& manifest);

// INVALID_ARGUMENT: these are not the bytes of one, or of a version that is not known here. What
// stands in it is not checked (plan::Check).
absl::StatusOr<plan::Definition> DecodeDefinition(std::string_view bytes);
absl::StatusOr<plan::Manifest> DecodeManifest(std::string_view bytes);

}  // namespace lockstep::wire::native
