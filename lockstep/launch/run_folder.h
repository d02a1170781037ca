// The temporary folder of one launcher: what its processes share with it lies there.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace lockstep::launch {

// Makes one below TMPDIR, which nobody but this user may enter.
absl::StatusOr<std::string> MakeRunFolder();

// Removes it with the plain files in it; nothing when `folder` is empty.
void RemoveRunFolder(const std::string& folder);

}  // namespace lockstep::launch
