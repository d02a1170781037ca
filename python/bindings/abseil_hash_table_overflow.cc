// The half of the fix of CVE-2025-0838 that stands in a source file. Debian's headers, which
// everything of ours is compiled with, have the other half: they call this when a table is asked to
// hold more than there can be. See cmake/LockstepPicAbseil.cmake.
#include <cstdio>
#include <cstdlib>

#include "absl/container/internal/raw_hash_set.h"

namespace absl {
ABSL_NAMESPACE_BEGIN
namespace container_internal {

void HashTableSizeOverflow() {
  std::fputs("a hash table was asked for more room than there can be\n", stderr);
  std::abort();
}

}  // namespace container_internal
ABSL_NAMESPACE_END
}  // namespace absl
