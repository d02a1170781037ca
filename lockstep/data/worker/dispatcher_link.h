// A link to the dispatcher that is made again whenever it is gone.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lockstep/platform/link/client_link.h"
#include "lockstep/platform/link/servers.h"
#include "lockstep/platform/runtime/loop.h"

namespace lockstep::data {

// Threads: loop-confined. Bounds: calls wait while the link is made, and fail when it cannot be.
class DispatcherLink {
 public:
  using Answered = link::ClientLink::Answered;

  DispatcherLink(runtime::Loop& loop, std::shared_ptr<link::Servers> servers, std::string who,
                 link::LinkOptions options);
  ~DispatcherLink();
  DispatcherLink(const DispatcherLink&) = delete;
  DispatcherLink& operator=(const DispatcherLink&) = delete;

  // Calls back once: with the answer, with the dispatcher's error, or with UNAVAILABLE.
  void Call(link::RequestKind kind, std::string payload, Answered answered);
  bool connected() const { return ready_; }
  // For people: one address, or several, or the file that names them.
  const std::string& address() const { return servers_->text(); }

 private:
  struct Waiting {
    link::RequestKind kind;
    std::string payload;
    Answered answered;
  };
  void Dial();
  void Closed(const absl::Status& why);

  runtime::Loop& loop_;
  const std::shared_ptr<link::Servers> servers_;
  const std::string who_;
  const link::LinkOptions options_;
  std::shared_ptr<link::ClientLink> link_;
  bool ready_ = false;
  std::deque<Waiting> waiting_;
};

}  // namespace lockstep::data
