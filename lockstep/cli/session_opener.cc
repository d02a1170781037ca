#include "lockstep/cli/session_opener.h"

#include <utility>

namespace lockstep::cli {

SessionOpener::SessionOpener(SessionOptions options, Opened opened) {
  options.interrupted = [this]() -> absl::Status {
    return stopping_ ? absl::CancelledError("lockstep run ends") : absl::OkStatus();
  };
  thread_ = std::thread([this, options = std::move(options), opened = std::move(opened)]() mutable {
    auto session = Session::Open(std::move(options));
    if (!stopping_) opened(std::move(session));
  });
}

SessionOpener::~SessionOpener() {
  stopping_ = true;
  thread_.join();
}

}  // namespace lockstep::cli
