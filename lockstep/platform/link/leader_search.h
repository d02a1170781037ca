// Which of several servers to call next, and which of them to believe that it leads. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "lockstep/base/time.h"
#include "lockstep/platform/runtime/address.h"

namespace lockstep::link {

// A server that has not answered for so long does not keep the next one waiting: `server_stagger`.
inline constexpr absl::Duration kServerStagger = absl::Milliseconds(250);
// While one is silent, those that have failed are called again after this: `server_recall`.
inline constexpr absl::Duration kServerRecall = absl::Milliseconds(500);

// One search. The next server is called when one has failed, or when the last one called has said
// nothing for `kServerStagger`; those called before are still listened to. The first that leads is
// taken. A server that does not lead may say who does; that one is called next, if it is in the
// list and was not called yet. The hint is compared with the list as text, host and port: nothing
// is looked up, and nothing that is not in the list is ever called.
//
// The search ends when all have failed. While one of them is silent, which may take as long as a
// connection may, another may come to lead; so the others, unless they will never accept us, are
// called again every `kServerRecall`. A search of one server changes nothing in its errors.
//
// Threads: thread-compatible. Bounds: runtime::kServersMax servers; what each failure adds to the
// error is cut at kFailureBytesMax.
class LeaderSearch {
 public:
  static constexpr size_t kFailureBytesMax = 512;

  // `servers`: at least one, in the order in which to call them. None is called again after
  // `until`.
  explicit LeaderSearch(std::vector<runtime::Address> servers, Time until = Time::Infinite());

  // Which server to call now, by its index; ask again until there is none. Once it begins, after
  // each failure, and at `NextDeadline`.
  std::optional<size_t> Next(Time now);
  // A server that `Next` gave was not reached, refused the link, or closed it before the welcome.
  // `leader`: who leads, as it said. Empty: it did not.
  void Failed(Time now, size_t server, absl::Status why, std::string_view leader = "");
  // A server has welcomed the link, in that epoch. True: it leads, and the search is over. False:
  // another has led in a later one, `epoch_seen`, so this link must be dropped.
  bool Welcomed(Time now, size_t server, uint64_t epoch, uint64_t epoch_seen);

  // When to ask `Next` again; infinite: after the next failure.
  Time NextDeadline() const;
  // All have failed.
  bool exhausted() const;
  // What is wrong with each server so far, with code and reason of the most telling failure.
  absl::Status why() const;

  const runtime::Address& server(size_t index) const { return servers_[index].address; }

 private:
  enum class State { kNotCalled, kCalled, kFailed };
  struct Server {
    runtime::Address address;
    State state = State::kNotCalled;
    absl::Status why = absl::OkStatus();  // of the last failure
    Time again = Time::Infinite();        // of one that has failed: when to call it once more
  };

  bool AwaitsAny() const;
  void Follow(std::string_view leader);

  std::vector<Server> servers_;
  const Time until_;
  std::deque<size_t> order_;  // not called yet
  Time next_;                 // not before
  bool found_ = false;
};

}  // namespace lockstep::link
