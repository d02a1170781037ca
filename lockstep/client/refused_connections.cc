#include "lockstep/client/refused_connections.h"

#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"

namespace lockstep::client {

RefusedConnections::RefusedConnections(std::string who)
    : complaints_([who = std::move(who)](const std::string& why) {
        const std::string line = absl::StrCat("lockstep: ", who, ": ", why, "\n");
        // At once, so that it is not mixed with what others write.
        [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
      }) {}

void RefusedConnections::Note(const std::string& why) {
  ++count_;
  complaints_.Say(why);
}

}  // namespace lockstep::client
