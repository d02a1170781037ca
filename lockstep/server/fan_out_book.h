// What the server knows of answers that agents pass on to each other. Pure. The shell is fan_out.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "lockstep/base/time.h"
#include "lockstep/platform/link/server.h"
#include "lockstep/server/counters.h"
#include "lockstep/server/fan_out_plan.h"

namespace lockstep::server {

// One answer on its way to many agents: what each is sent. Threads: immutable.
class FanOutTree {
 public:
  using Bytes = std::shared_ptr<const std::string>;
  // An agent, and where others reach it.
  struct Host {
    link::LinkId link;
    std::string at;
  };
  struct Secret {
    std::string ticket;  // 16 random bytes
    std::string key;     // 32
  };

  // `answer`: an encoded StockCallReply. `hosts`: those of `plan`.
  FanOutTree(Secret secret, const Bytes& answer, std::vector<Host> hosts, FanOutPlan plan);

  const FanOutPlan& plan() const { return plan_; }
  const std::string& ticket() const { return secret_.ticket; }
  // With the answer itself in it.
  const Bytes& whole() const { return whole_; }
  // An encoded StockCallReply: `whole`, or where that host has the answer from.
  Bytes MessageFor(size_t host) const;
  // Where that of `child` has it from; empty: from the server, or it is not in the tree.
  std::string ParentOf(link::LinkId child) const;
  size_t bytes() const { return whole_->size() + hosts_.size() * kHostBytes; }

 private:
  static constexpr size_t kHostBytes = 96;  // about what a host costs here

  const Secret secret_;
  const size_t size_;
  const std::vector<Host> hosts_;
  const FanOutPlan plan_;
  Bytes whole_;
};

// Which agents take part and whom to spare, and the answers that agents may still ask for because
// they could not have them from each other.
//
// Threads: thread-compatible. Bounds: the links of the server; Options::kept_max and
// Options::kept_bytes_max, of which the oldest makes room; Options::distrusted_max.
class FanOutBook {
 public:
  struct Options {
    // Of an answer that goes through a tree: `fan_out_bytes_min`.
    size_t bytes_min = size_t{32} << 10;
    // Longer ones would take longer on a slow network than agents wait for each other:
    // `fan_out_bytes_max`.
    size_t bytes_max = size_t{4} << 20;
    // To so many hosts at least: `fan_out_hosts_min`.
    size_t hosts_min = 64;
    FanOutPlan::Shape shape;
    // For how long agents may ask for an answer again: longer than they try elsewhere.
    absl::Duration kept_for = absl::Seconds(30);
    size_t kept_max = 256;
    size_t kept_bytes_max = size_t{128} << 20;
    // For how long an agent that had to ask again has its answers from the server, and the one that
    // did not serve it serves nobody: `fan_out_distrust`.
    absl::Duration distrust = absl::Seconds(60);
    // Whom it is remembered of.
    size_t distrusted_max = 16'384;
  };

  explicit FanOutBook(Options options) : options_(options) {}

  // The agent at this link takes part; others reach it `at` HOST:PORT. `job`: which it is of.
  void Joined(link::LinkId link, const void* job, std::string at);
  void Left(link::LinkId link) { agents_.erase(link); }
  void JobDeleted(const void* job);
  bool TakesPart(link::LinkId link) const { return agents_.contains(link); }

  // Whether such an answer to so many agents goes through a tree.
  bool IsWorth(size_t bytes, size_t hosts) const {
    return bytes >= options_.bytes_min && bytes <= options_.bytes_max &&
           hosts >= options_.hosts_min;
  }
  // An answer to all of these links, of one job: kept from now on.
  std::shared_ptr<const FanOutTree> Begin(Time now, FanOutTree::Secret secret,
                                          const FanOutTree::Bytes& answer,
                                          const std::vector<link::LinkId>& links);
  // The agent at this link could not have the answer from another one. Null: it is not kept.
  FanOutTree::Bytes Fetch(Time now, link::LinkId link, std::string_view ticket);

  // Forgets what has been kept for long enough.
  void Expire(Time now);
  Time NextDeadline() const { return kept_.empty() ? Time::Infinite() : kept_.front().until; }

  size_t bytes() const { return bytes_; }  // of what is kept
  const FanOutCounts& counts() const { return counts_; }

 private:
  struct Agent {
    const void* job = nullptr;
    std::string at;
  };
  // Of an agent that asked again, or was not of use. Kept when its link ends: it may come back.
  struct Distrust {
    Time direct_until;  // it has its answers from the server
    Time idle_until;    // it serves nobody
  };
  struct Kept {
    std::shared_ptr<const FanOutTree> tree;
    const void* job = nullptr;
    Time until;
  };

  void ForgetOldest();
  // Null: there is no room, or it has no address.
  Distrust* DistrustOf(const void* job, const std::string& at);

  const Options options_;
  absl::flat_hash_map<link::LinkId, Agent> agents_;
  absl::flat_hash_map<std::pair<const void*, std::string>, Distrust> distrusted_;  // by job
  Time distrust_swept_;
  std::deque<Kept> kept_;  // the oldest first
  size_t bytes_ = 0;
  FanOutCounts counts_;
};

}  // namespace lockstep::server
