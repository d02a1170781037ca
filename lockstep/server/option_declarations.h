// Every option of a server, declared once.
#pragma once

#include <string>
#include <vector>

#include "lockstep/platform/config/option_table.h"
#include "lockstep/server/etcd_state.h"
#include "lockstep/server/options.h"

namespace lockstep::server {

// What the table's options are bound to: most of them to `options`, those that need reading to
// texts. Stays where it is made.
struct DeclaredOptions {
  DeclaredOptions();
  DeclaredOptions(const DeclaredOptions&) = delete;
  DeclaredOptions& operator=(const DeclaredOptions&) = delete;

  ServerOptions options;
  std::string listen;
  std::string http;
  std::string log_format = "text";
  std::vector<std::string> jobs;
  std::vector<std::string> recoverable;
  std::vector<std::string> allow_uids;
  std::string auth;
  std::vector<std::string> kubernetes_accounts;
  std::string member_uri;
  EtcdSettings etcd;
  bool stock_tls = false;
  bool ephemeral = false;
  config::OptionTable table;
};

}  // namespace lockstep::server
