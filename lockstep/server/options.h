// What a server is told to do. The declarations of the options are in option_declarations.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "lockstep/coord/options.h"
#include "lockstep/data/dispatch/options.h"
#include "lockstep/hosts/terms.h"
#include "lockstep/platform/etcd/etcd_journal.h"
#include "lockstep/platform/link/options.h"
#include "lockstep/platform/runtime/address.h"
#include "lockstep/platform/runtime/peer_owner.h"
#include "lockstep/server/fan_out_book.h"
#include "lockstep/server/kubernetes_accounts.h"
#include "lockstep/server/member_uri.h"
#include "lockstep/server/store_host.h"
#include "lockstep/stock/grpc/stock_listener.h"

namespace lockstep::server {

enum class LogFormat { kText, kJson };

// Where the certificate comes from. Without files the server makes one that it signs itself.
struct CertificateFiles {
  std::string certificates;        // `tls_cert`; empty: none is given
  std::string key;                 // `tls_key`; empty: it stands in that file, too
  std::string client_authorities;  // `client_ca`; empty: clients need no certificates

  friend bool operator==(const CertificateFiles&, const CertificateFiles&) = default;
};

struct JobOptions {
  std::string name;
  int32_t size = 1;
  // The roles of the job, whose sizes add up to `size`; empty: one role, as its members call it.
  std::vector<coord::RoleOptions> roles;
  // Where its stock clients call; absent, or port 0: the server chooses (see listen_address.h).
  std::optional<runtime::Address> address;
  bool recoverable = false;
  // Deleted when nobody has used it for `idle_job_timeout`: made while the server runs.
  bool temporary = false;
};

struct ServerOptions {
  // For our own programs. Port 0: the system chooses.
  runtime::Address listen = {.host = "127.0.0.1", .port = 7070};
  std::vector<JobOptions> jobs;
  // All together, those that clients make included.
  size_t jobs_max = 1000;
  // Members of all jobs together, whether or not they have come.
  size_t members_total_max = 262'144;
  // Only the command line makes jobs.
  bool no_client_jobs = false;
  // How long a job that was made while the server runs stays when nobody uses it.
  absl::Duration idle_job_timeout = absl::Hours(24);

  // What all jobs have in common: time-outs and limits.
  coord::CoordinatorOptions coordinator;
  // Of the data service: time-outs and limits.
  dispatch::Options data;
  link::LinkOptions link;
  // Of hosts that have an agent.
  hosts::Terms hosts;
  // Of long answers to many agents.
  FanOutBook::Options fan_out;
  size_t links_max = 4096;
  size_t links_per_host_max = 1024;
  // What the server may hold, in bytes; 0: half of what there is for it (runtime::MemoryOfProcess).
  size_t memory_max = 0;
  // With so much waiting for the disk, writes of keys wait before they take effect.
  size_t journal_queue_bytes_max = size_t{64} << 20;
  net::StockListenerOptions listener;
  // Of torch's clients.
  StoreHostOptions stores;
  // Events that are remembered: of each job, and of the server.
  size_t events_max = 10'000;
  // For browsers, Prometheus and scripts; absent: not served.
  std::optional<runtime::Address> http;
  // What browsers may call this host beside its numbers: `http_host`.
  std::vector<std::string> http_names;

  // Where the state is kept on disk; empty: only in memory, or in etcd.
  std::string state_directory;
  // Where several servers keep one state, of whom one leads. Absent: not there.
  std::optional<etcd::EtcdOptions> etcd;
  // Keeps the certificate that the server makes for itself; empty: `state_directory`.
  std::string certificate_directory;
  // Empty: none is written.
  std::string ready_file;
  // The server ends when this process has (see parent_watch.h); 0: it belongs to none.
  int32_t parent = 0;
  // Of this host's users, who may call at addresses that only this host can reach; `allow_uid`.
  runtime::AllowedPeers allowed;
  // By which clients know this server, on the link.
  CertificateFiles certificate;
  // The URIs by which certificates name members; `member_uri`. Absent: they name none.
  std::optional<MemberUri> member_uri;
  // The keys of tokens; `token_keys`. Empty: only users of this host are known.
  std::string token_keys;
  // Whose tokens the API server of a Kubernetes cluster verifies for this one.
  KubernetesOptions kubernetes;
  // Addresses that other hosts can reach are allowed.
  bool insecure_network = false;
  // Addresses of stock clients, who can prove nothing, may be such, too.
  bool insecure_stock_network = false;
  // So may the address of HTTP, where everybody can read what there is to see.
  bool insecure_http_network = false;
  // From the first signal until the process ends, whatever hangs.
  absl::Duration end_timeout = absl::Seconds(5);
  bool verbose = false;
  LogFormat log_format = LogFormat::kText;
};

// Whether the server writes its state down.
inline bool KeepsState(const ServerOptions& options) {
  return options.etcd.has_value() || !options.state_directory.empty();
}

// Whether callers of other hosts can be known.
inline bool TakesTokens(const ServerOptions& options) {
  return !options.token_keys.empty() || !options.kubernetes.accounts.empty();
}
// Whether stock clients of other hosts may come: they need not prove anything, or all of them prove
// by a certificate who they are, which torch's clients cannot.
inline bool AllowsStockNetwork(const ServerOptions& options) {
  const bool certified = options.listener.tls && options.stores.none &&
                         !options.listener.tls->client_authorities.empty();
  return options.insecure_network || options.insecure_stock_network || certified;
}
// Where they call unless their job says otherwise: beside the link, but where other hosts have to
// prove who they are, only this host.
inline std::string HostOfStockClients(const ServerOptions& options) {
  const bool beside = !TakesTokens(options) || AllowsStockNetwork(options);
  return beside ? options.listen.host : "127.0.0.1";
}

}  // namespace lockstep::server
