// What `--state etcd://...` and the options of its group say.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lockstep/platform/etcd/etcd_journal.h"
#include "lockstep/platform/runtime/address.h"

namespace lockstep::server {

// As they were given, `etcd_ca` and so on; empty: not at all.
struct EtcdSettings {
  std::string authority_file;
  std::string certificate_file;
  std::string key_file;
  std::string password_file;
  std::string advertise;
  absl::Duration leader_timeout = absl::Seconds(3);
  bool new_state = false;
  bool any_version = false;
  bool no_compaction = false;
};

// Reads the files. INVALID_ARGUMENT names the option that is wrong; other errors the file.
absl::StatusOr<etcd::EtcdOptions> ReadEtcd(const std::string& location, const EtcdSettings& given,
                                           const runtime::Address& listen);

}  // namespace lockstep::server
