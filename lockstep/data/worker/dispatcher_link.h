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
#include "lockstep/platform/runtime/address.h"
#include "lockstep/platform/runtime/loop.h"

namespace lockstep::data {

// Threads: loop-confined. Bounds: calls wait while the link is made, and fail when it cannot be.
class DispatcherLink {
 public:
  using Answered = link::ClientLink::Answered;

  DispatcherLink(runtime::Loop& loop, runtime::Address address, std::string who,
                 link::LinkOptions options);
  ~DispatcherLink();
  DispatcherLink(const DispatcherLink&) = delete;
  DispatcherLink& operator=(const DispatcherLink&) = delete;

  // Calls back once: with the answer, with the dispatcher's error, or with UNAVAILABLE.
  void Call(link::RequestKind kind, std::string payload, Answered answered);
  bool connected() const { return ready_; }
  const std::string& address() const { return text_; }

 private:
  struct Waiting {
    link::RequestKind kind;
    std::string payload;
    Answered answered;
  };
  void Dial();
  void Closed(const absl::Status& why);

  runtime::Loop& loop_;
  const runtime::Address address_;
  const std::string text_;
  const std::string who_;
  const link::LinkOptions options_;
  std::shared_ptr<link::ClientLink> link_;
  bool ready_ = false;
  std::deque<Waiting> waiting_;
};

}  // namespace lockstep::data
