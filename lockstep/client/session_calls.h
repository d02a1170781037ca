// The calls of a session that have no answer yet. Pure.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/base/time.h"
#include "lockstep/client/request_window.h"
#include "lockstep/client/session_call.h"

namespace lockstep::client {

// Keeps each call from its submission to its completion, which happens once; its place in the queue
// of those that are to be sent on the link of now; and its deadline.
//
// Threads: thread-compatible. Bounds: Options.
class SessionCalls {
 public:
  struct Options {
    std::string job;     // for errors
    std::string server;  // likewise
    size_t calls_max = 0;
    size_t bytes_max = 0;          // of all their requests
    size_t message_bytes_max = 0;  // of one; until the server says what it takes
  };
  struct Entry {
    Call call;
    Time since;
  };
  struct Request {
    RequestNumber number = 0;
    const Call* call = nullptr;
  };

  explicit SessionCalls(Options options);

  bool empty() const { return calls_.empty(); }
  // OK, or RESOURCE_EXHAUSTED (limit_exceeded), with the name of the limit.
  absl::Status CheckRoom(const Call& call, const RequestWindow& window) const;
  // What the server takes, of one request. Those that were let in and are larger, with what
  // `CheckRoom` would have said; the caller completes them.
  std::vector<std::pair<RequestNumber, absl::Status>> SetMessageBytesMax(size_t bytes);

  // To be sent, unless it only waits for the session to open. Numbers and tickets must ascend.
  void Add(Time now, RequestNumber number, Call&& call);
  // Takes it out. An error gets details: job, server, request, waited_ms. It must be here.
  CompletedCall Complete(Time now, RequestNumber number, absl::StatusOr<std::string>&& answer);

  // Only of a call that has not been completed.
  const Entry& at(RequestNumber number) const;
  // Whether it is on the link of now. False: also of one that was completed, or is no call's.
  bool Sent(RequestNumber number) const;
  // Nothing: the call was completed, or is no call's.
  std::optional<RequestNumber> NumberOf(Ticket ticket) const;
  // Those of which `chosen(const Call&)` is true, in the order of their numbers.
  template <class Chosen>
  std::vector<RequestNumber> Select(const Chosen& chosen) const {
    std::vector<RequestNumber> numbers;
    for (const auto& [name, entry] : calls_) {
      if (chosen(entry.call)) numbers.push_back(name.number);
    }
    return numbers;
  }

  // The first that was not sent on this link, and is from now on. Its call is null: there is none.
  Request TakeUnsent();
  // All are to be sent again, in their order.
  void LinkLost() { sent_through_ = 0; }

  // The earliest of the calls that have one; infinite: none has.
  Time NextDeadline() const;
  // One whose deadline has passed.
  std::optional<RequestNumber> TimedOut(Time now) const;

 private:
  // Both ascend from call to call, so that one map finds a call by either.
  struct Name {
    RequestNumber number = 0;
    Ticket ticket = 0;
  };
  struct ByTicket {
    Ticket ticket = 0;
  };
  struct InOrder {
    using is_transparent = void;
    bool operator()(Name a, Name b) const { return a.number < b.number; }
    bool operator()(Name a, RequestNumber b) const { return a.number < b; }
    bool operator()(RequestNumber a, Name b) const { return a < b.number; }
    bool operator()(Name a, ByTicket b) const { return a.ticket < b.ticket; }
    bool operator()(ByTicket a, Name b) const { return a.ticket < b.ticket; }
  };

  absl::Status CheckSize(const Call& call) const;
  void CheckInvariants() const;

  const Options options_;
  size_t message_bytes_max_;
  std::map<Name, Entry, InOrder> calls_;
  RequestNumber sent_through_ = 0;  // on the link of now
  std::set<std::pair<Time, RequestNumber>> deadlines_;
  size_t bytes_ = 0;
  size_t parked_ = 0;
};

}  // namespace lockstep::client
