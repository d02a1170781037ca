#include "lockstep/observe/store_text.h"

#include <algorithm>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lockstep/observe/text_parts.h"
#include "lockstep/observe/why_parts.h"
#include "lockstep/observe/why_processes.h"

namespace lockstep::observe {
namespace {

using namespace wire::native;  // NOLINT: the messages are what this file is about

constexpr size_t kRangesMax = 8;
// Keys that are told of in sentences; the rest is counted.
constexpr size_t kWaitsTold = 3;
constexpr size_t kPeersNamedMax = 3;
constexpr size_t kKeyBytesMax = 200;

bool IsUsed(const JobStatus& job) {
  return job.torch_store && (job.torch_store->connections > 0 || job.torch_store->keys > 0);
}

// "ranks 0-2,5", then those who set no key of a rank: "127.0.0.1:40012".
std::string WaitersText(const StoreWait& wait) {
  std::set<int32_t> ranks;
  std::vector<std::string> peers;
  for (const StoreWaiter& waiter : wait.first_waiters) {
    if (waiter.rank) {
      ranks.insert(*waiter.rank);
    } else {
      peers.push_back(CleanText(waiter.peer));
    }
  }
  std::string text;
  if (!ranks.empty()) {
    text = absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ",
                        RangesText({ranks.begin(), ranks.end()}, kRangesMax));
  }
  for (size_t i = 0; i < std::min(peers.size(), kPeersNamedMax); ++i) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", peers[i]);
  }
  const auto named = static_cast<int64_t>(ranks.size() + std::min(peers.size(), kPeersNamedMax));
  if (wait.waiters > named) absl::StrAppend(&text, ", +", wait.waiters - named, " more");
  return text;
}

// "rank 3, task/3 (host7:4711)"; empty: the key tells of none.
std::string OwnerText(const JobStatus& job, const StoreWait& wait) {
  if (!wait.rank) return "";
  std::string text = absl::StrCat("rank ", *wait.rank);
  const MemberStatus* member = MemberAt(job, *wait.rank);
  if (member != nullptr && !ProcessText(*member).empty()) {
    absl::StrAppend(&text, ", ", CleanText(member->name), " (", ProcessText(*member), ")");
  }
  return text;
}

std::string RowText(const JobStatus& job, const StoreWait& wait) {
  const std::string key = CleanText(wait.key, kKeyBytesMax);
  const std::string waiters =
      absl::StrFormat("the first for %s: %s\n", DurationText(wait.since_ago_us), WaitersText(wait));
  if (wait.barrier_size > 0) {
    return absl::StrFormat("    barrier at key '%s': %d of %d arrived, %s", key, wait.arrived,
                           wait.barrier_size, waiters);
  }
  const std::string owner = OwnerText(job, wait);
  return absl::StrFormat("    key '%s'%s is not set: %d waiting, %s", key,
                         owner.empty() ? "" : ", probably of " + owner + ",", wait.waiters,
                         waiters);
}

std::string SentenceOf(const JobStatus& job, const StoreWait& wait) {
  const std::string key = CleanText(wait.key, kKeyBytesMax);
  if (wait.barrier_size > 0) {
    return absl::StrFormat(
        "Barrier of torch's store at key '%s': %d of %d have arrived, the first %s ago: %s.", key,
        wait.arrived, wait.barrier_size, DurationText(wait.since_ago_us), WaitersText(wait));
  }
  const std::string owner = OwnerText(job, wait);
  return absl::StrFormat(
      "Key '%s' of torch's store is not set%s. %d %s for it, the first for %s: %s.", key,
      owner.empty() ? "" : "; probably " + owner + " should set it", wait.waiters,
      wait.waiters == 1 ? "waits" : "wait", DurationText(wait.since_ago_us), WaitersText(wait));
}

// Whose keys are waited for, those of the longest awaited first, each once.
std::vector<int32_t> OwnersOf(const StoreStatus& store) {
  std::vector<int32_t> owners;
  for (const StoreWait& wait : store.awaited) {
    if (wait.rank && std::find(owners.begin(), owners.end(), *wait.rank) == owners.end()) {
      owners.push_back(*wait.rank);
    }
  }
  return owners;
}

}  // namespace

std::string StoreText(const JobStatus& job) {
  if (!IsUsed(job)) return "";
  const StoreStatus& store = *job.torch_store;
  std::string text =
      absl::StrFormat("  torch store %s, attempt %d: %s, %s, %s\n", CleanText(job.store),
                      store.attempt, CountText(store.connections, "connection"),
                      CountText(store.keys, "key"), CountText(store.waits, "wait"));
  for (size_t i = 0; i < std::min(store.awaited.size(), kRowsMax); ++i) {
    text += RowText(job, store.awaited[i]);
  }
  const auto shown = static_cast<int64_t>(std::min(store.awaited.size(), kRowsMax));
  if (store.keys_awaited > shown) {
    text += absl::StrFormat("    +%d more awaited keys, %d in all\n", store.keys_awaited - shown,
                            store.keys_awaited);
  }
  return text;
}

bool OnlyTorch(const JobStatus& job) {
  return IsUsed(job) && MembersThatAre(job, MemberCondition::kMissing).size() == job.members.size();
}

void TellStore(const JobStatus& job, Diagnosis& out) {
  if (!job.torch_store || job.torch_store->awaited.empty()) return;
  const StoreStatus& store = *job.torch_store;
  for (size_t i = 0; i < std::min(store.awaited.size(), kWaitsTold); ++i) {
    out.findings.push_back(SentenceOf(job, store.awaited[i]));
  }
  if (store.keys_awaited > static_cast<int64_t>(kWaitsTold)) {
    out.findings.push_back(absl::StrFormat("+%d more awaited keys of torch's store.",
                                           store.keys_awaited - static_cast<int64_t>(kWaitsTold)));
  }
  const std::vector<int32_t> owners = OwnersOf(store);
  if (owners.empty()) {
    out.advice.push_back(
        "Find the rank that should set the key, and check whether it got that far.");
  } else {
    out.advice.push_back(absl::StrFormat(
        "Check whether rank %s was started, spends a long time importing or loading, or has ended: "
        "see its output and its stack (lockstep stacks %s).",
        RangesText(owners, kRangesMax), CleanText(job.job)));
  }
}

Diagnosis DiagnoseTorch(const JobStatus& job) {
  Diagnosis out;
  const StoreStatus& store = *job.torch_store;
  // Who failed or is stopped is what the others wait for, whatever they wait for at the store.
  if (TellProcesses(job, out) && out.verdict != Verdict::kFine) {
    TellStore(job, out);
    return out;
  }
  out = {};
  if (store.awaited.empty()) {
    out.summary = absl::StrFormat(
        "running, no hang seen: %s to torch's store, and no waits there (attempt %d, %s)",
        CountText(store.connections, "connection"), store.attempt, CountText(store.keys, "key"));
    if (store.connections == 0) {
      out.summary =
          absl::StrFormat("no client is connected to torch's store, which holds %s of attempt %d",
                          CountText(store.keys, "key"), store.attempt);
    }
    return out;
  }
  out.verdict = Verdict::kWaiting;
  const std::vector<int32_t> owners = OwnersOf(store);
  out.summary = owners.empty() ? absl::StrFormat("%d waits at torch's store", store.waits)
                               : absl::StrFormat("%d %s at torch's store for rank %s", store.waits,
                                                 store.waits == 1 ? "waits" : "wait",
                                                 RangesText(owners, kRangesMax));
  TellStore(job, out);
  return out;
}

}  // namespace lockstep::observe
