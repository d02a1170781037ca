#include "lockstep/platform/etcd/version.h"

#include <array>
#include <tuple>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace lockstep::etcd {

std::string WhyNot(const std::string& version) {
  const std::vector<std::string> parts = absl::StrSplit(version, absl::ByAnyChar(".-+"));
  std::array<int, 3> numbers = {};
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (i >= parts.size() || !absl::SimpleAtoi(parts[i], &numbers[i])) {
      return absl::StrCat("version '", version, "' is none of etcd's");
    }
  }
  if (numbers < std::array<int, 3>{3, 4, 0}) {
    return absl::StrCat("version ", version, " is older than 3.4: use 3.4.22 or later");
  }
  if (numbers >= std::array<int, 3>{3, 5, 0} && numbers < std::array<int, 3>{3, 5, 3}) {
    return absl::StrCat("version ", version,
                        " can lose data of a member that is killed under load (etcd's advisory of "
                        "March 2022): use 3.5.3 or later, or 3.4");
  }
  return "";
}

}  // namespace lockstep::etcd
