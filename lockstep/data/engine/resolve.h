// Finds and counts the files of a dataset.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lockstep/data/plan/definition.h"

namespace lockstep::engine {

// Files of one dataset: `source_files_max`.
inline constexpr size_t kSourceFilesMax = 1'000'000;

struct ResolveOptions {
  // Directories whose files may be read, symbolic links followed first; empty: any.
  std::vector<std::string> roots;
  // What relative paths are relative to; empty: the working directory.
  std::string directory;
};

// The manifest of a definition that checks. Reads as much as counting takes: all of lines and
// TFRecord files, the head of the others. PERMISSION_DENIED with kPathRefused; NOT_FOUND with
// kSourceMissing: a path or glob matches nothing; INVALID_ARGUMENT: a file is not what the source
// says; each names node and path.
absl::StatusOr<plan::Manifest> Resolve(const plan::Definition& definition,
                                       const ResolveOptions& options);

}  // namespace lockstep::engine
