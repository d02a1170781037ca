// What a server answers while another one leads: who that is.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/platform/runtime/memory_account.h"
#include "lockstep/server/link_listener.h"
#include "lockstep/server/options.h"

namespace lockstep::server {

// Takes the address of the link, and sends every client away to the leader. Ends before the server
// takes the address to lead.
//
// Owns a thread with a loop of its own, since the server's does not run yet.
class StandbyListener {
 public:
  // `leader` says the leader's address, or nothing; on the listener's thread. Errors as
  // LinkListener's.
  static absl::StatusOr<std::unique_ptr<StandbyListener>> Listen(
      const ServerOptions& options, std::function<std::string()> leader);
  ~StandbyListener();
  StandbyListener(const StandbyListener&) = delete;
  StandbyListener& operator=(const StandbyListener&) = delete;

 private:
  explicit StandbyListener(size_t memory_max);

  runtime::MemoryAccount memory_;
  runtime::Loop loop_;
  std::unique_ptr<LinkListener> link_;
  std::thread thread_;
};

}  // namespace lockstep::server
