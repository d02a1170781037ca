// One moment of a server, for whoever looks in from another thread: plain values.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "lockstep/base/time.h"
#include "lockstep/platform/runtime/memory_account.h"
#include "lockstep/server/counters.h"
#include "lockstep/server/rendezvous_totals.h"
#include "lockstep/wire/native/data_status_messages.h"
#include "lockstep/wire/native/status_messages.h"

namespace lockstep::server {

struct JobCounts {
  std::string job;
  size_t sessions = 0;     // native ones with a link
  size_t connections = 0;  // of stock clients
  RendezvousTotals rendezvous;
  TorchCommandCounts torch_commands = {};  // in all attempts since the server was started
};

// Sequences of the journal.
struct JournalPlace {
  uint64_t newest = 0;   // handed in
  uint64_t durable = 0;  // this one and all before it
};

// The data service, and what was counted of it.
struct DataCounts {
  wire::native::DataStatusReply status;
  uint64_t polls_of_workers = 0;
  uint64_t polls_of_consumers = 0;
  uint64_t refused = 0;
  uint64_t records = 0;
};

struct ServerView {
  Time at;
  // Encoded, as it comes from the loop: whoever looks decodes it, in a thread of its own.
  std::shared_ptr<const std::string> encoded_status;
  std::shared_ptr<const std::string> encoded_data;  // of `data.status`; null: none
  wire::native::StatusReply status;
  std::vector<JobCounts> counts;  // of each job of the status, once that is decoded
  Counters counters;
  FanOutCounts fan_out;
  std::vector<runtime::MemoryAccount::Holder> memory;  // what each part holds, the largest first
  size_t links = 0;
  DataCounts data;
  std::optional<JournalPlace> journal;  // absent: nothing is kept
  // Why the server should be sent no work now; empty: it is ready.
  std::vector<std::string> not_ready;
  absl::Duration longest_turn;  // of the loop, lately
  uint64_t turns = 0;

  // Fills `status` and `data.status`, and puts the counts in the order of its jobs. Takes as long
  // as there are members: not for the loop.
  absl::Status DecodeStatus();
};

}  // namespace lockstep::server
