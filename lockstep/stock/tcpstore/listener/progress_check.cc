#include "lockstep/stock/tcpstore/listener/progress_check.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace lockstep::net {

std::string ProgressCheck::Look(const Sight& now) {
  const Sight before = std::exchange(last_, now);
  const bool writes = now.unsent > 0;
  const bool reads = now.pending > 0 && now.reads;
  const bool written = now.sent != before.sent;
  const bool came =
      now.commands != before.commands || now.pending >= before.pending + kRequestBytesMin;
  const bool stands = (writes && !written) || (!writes && reads && !came);
  still_ = stands ? still_ + 1 : 0;
  if (still_ < kLooks) return "";
  return writes
             ? absl::StrCat("it has not read any of ", now.unsent, " bytes")
             : absl::StrCat("a request of which ", now.pending, " bytes arrived is not continued");
}

}  // namespace lockstep::net
