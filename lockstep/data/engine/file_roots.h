// The files that datasets may read: everything below some directories, and nothing else.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "lockstep/platform/runtime/unique_fd.h"

namespace lockstep::engine {

// One path or pattern of a dataset: `pattern_bytes_max`.
inline constexpr size_t kPatternBytesMax = 16 << 10;
// What one pattern's braces may become: `brace_expansions_max`.
inline constexpr size_t kBraceExpansionsMax = 1000;
// Directory entries that listing one pattern may look at: `listing_entries_max`.
inline constexpr size_t kListingEntriesMax = 10'000'000;
// Symbolic links on the way to one file: `links_followed_max`.
inline constexpr int kLinksFollowedMax = 40;

// Walks to a file one component at a time, from a root and by descriptors, and follows symbolic
// links itself. So nothing outside of the roots is ever looked at: what is refused tells nothing of
// what is there, and a directory that is swapped for a link meanwhile leads nowhere else.
//
// Threads: immutable, thread-safe. Owns no descriptor between calls.
class FileRoots {
 public:
  // Directories, absolute or relative to the working directory; none: "/", hence everything.
  explicit FileRoots(const std::vector<std::string>& directories);

  struct File {
    runtime::UniqueFd fd;  // a regular file, for reading
    std::string path;      // without symbolic links, but for those above a root
  };
  // PERMISSION_DENIED with kPathRefused: it is outside, or a link leads there; NOT_FOUND with
  // kSourceMissing; INVALID_ARGUMENT with kSourceMissing: it is not a regular file.
  absl::StatusOr<File> Open(const std::string& path) const;

  // The files and links that a pattern matches: `*`, `?` and `[...]` as in a shell, braces first.
  // In the order of their names for each form that the braces take; directories are left out.
  // PERMISSION_DENIED as `Open`; NOT_FOUND with kSourceMissing: nothing matches; INVALID_ARGUMENT
  // as `ExpandBraces`; RESOURCE_EXHAUSTED: more than `most`, or `listing_entries_max`.
  absl::StatusOr<std::vector<std::string>> List(const std::string& pattern, size_t most) const;

 private:
  struct Root {
    std::string given;  // absolute, without "." and ".."
    std::string real;   // the same directory without symbolic links; empty: it is not there
  };
  struct Located {
    const Root* root;
    std::string rest;  // of the path, below the root
  };
  class Walk;
  class Listing;

  // The root above the path, by its text alone; PERMISSION_DENIED: there is none.
  absl::StatusOr<Located> Locate(const std::string& path) const;

  std::vector<Root> roots_;
};

// What a pattern becomes when its braces are expanded, in order. INVALID_ARGUMENT:
// `pattern_bytes_max`, `brace_expansions_max`. As in a shell, "{}" and a brace that nothing closes
// stand for themselves.
absl::StatusOr<std::vector<std::string>> ExpandBraces(std::string_view pattern);

}  // namespace lockstep::engine
