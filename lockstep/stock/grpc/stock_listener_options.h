// Limits of one listener for stock clients.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "lockstep/base/ids.h"
#include "lockstep/coord/error.h"
#include "lockstep/coord/options.h"
#include "lockstep/platform/runtime/acceptor.h"
#include "lockstep/platform/runtime/memory_account.h"
#include "lockstep/stock/grpc/grpc_budget.h"

namespace lockstep::net {

// PEM files, read again when they change.
struct StockTls {
  std::string certificates;  // the server's, and behind it those of its authorities
  std::string key;
  std::string client_authorities;  // empty: clients need no certificates
};

// The member of the job that a client's certificate names by its URIs, of which there are at most
// runtime::kPeerUrisMax; or why the client may not call. Called on gRPC's threads.
using MemberOfUris =
    std::function<std::variant<MemberIndex, coord::ErrorPtr>(const std::vector<std::string>& uris)>;

// Each limit has the name of its option in its error text.
struct StockListenerOptions {
  // Absent: connections are made without TLS.
  std::optional<StockTls> tls;
  // Callers without TLS act as tasks, too: a tunnel may have brought them from another host.
  bool callers_are_tasks = false;
  // Null: a certificate is good for every member.
  MemberOfUris member_of_uris;
  // gRPC holds a connection that says nothing until `handshake_timeout`; the server's own link, its
  // pages and its journal must not wait for that.
  runtime::AcceptorOptions connections = {.descriptors_left_min = 64};
  // The job's, by which the older clients name members (CoordinatorOptions::roles).
  std::vector<coord::RoleOptions> roles;
  // Open calls, waiting or not; further ones get RESOURCE_EXHAUSTED: `calls_max`.
  size_t calls_max = 1'100'000;
  // What gRPC may hold for connections and for messages that are on their way; beyond, it ends
  // calls and idle connections instead of the whole process: `grpc_memory_max`.
  size_t grpc_memory_max = size_t{4} << 30;
  // gRPC decompresses messages: of callers that may as well end the process.
  bool inflates = false;
  // From a connection to its first HTTP/2 settings; then it is closed.
  absl::Duration handshake_timeout = absl::Seconds(5);
  // Null: each listener has all of `grpc_memory_max`.
  std::shared_ptr<GrpcBudget> budget;
  // What calls hold is in this account, under this name. Null: in none.
  runtime::MemoryAccount* memory = nullptr;
  std::string owner;
  // How long `Shutdown` lets answers go out before it cuts what is left.
  absl::Duration drain_time = absl::Seconds(3);
};

}  // namespace lockstep::net
