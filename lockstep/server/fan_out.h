// Long answers of the server that agents pass on to each other.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/platform/link/server.h"
#include "lockstep/platform/runtime/host.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/platform/runtime/memory_account.h"
#include "lockstep/server/deadline_timer.h"
#include "lockstep/server/fan_out_book.h"

namespace lockstep::server {

// A FanOutBook with a clock, secrets, and what it keeps in the server's account of memory.
//
// Threads: loop-confined, but everything may be called while the loop does not run. `loop` and
// `memory` outlive it. Bounds: FanOutBook's. Where memory has no room, nothing is fanned out.
class FanOut {
 public:
  // `memory`: null: nobody counts.
  FanOut(runtime::Loop& loop, runtime::MemoryAccount* memory, FanOutBook::Options options)
      : book_(options),
        share_(memory, "agents", "answers they may fetch"),
        expiry_(loop, [this] { Settle(runtime::MonotonicNow()); }) {}

  // As FanOutBook.
  void Joined(link::LinkId link, const void* job, std::string at) {
    book_.Joined(link, job, std::move(at));
  }
  void Left(link::LinkId link) { book_.Left(link); }
  void JobDeleted(const void* job) {
    book_.JobDeleted(job);
    share_.Set(book_.bytes());
  }
  bool TakesPart(link::LinkId link) const { return book_.TakesPart(link); }
  const FanOutCounts& counts() const { return book_.counts(); }
  // Null: each link is to be sent the answer itself.
  std::shared_ptr<const FanOutTree> Begin(const FanOutTree::Bytes& answer,
                                          const std::vector<link::LinkId>& links) {
    runtime::MemoryAccount* const memory = share_.account();
    if (!book_.IsWorth(answer->size(), links.size())) return nullptr;
    if (memory != nullptr && !memory->HasRoom(answer->size())) return nullptr;
    const Time now = runtime::MonotonicNow();
    auto tree = book_.Begin(
        now, {.ticket = runtime::RandomBytes(kTicketBytes), .key = runtime::RandomBytes(kKeyBytes)},
        answer, links);
    Settle(now);
    return tree;
  }
  FanOutTree::Bytes Fetch(link::LinkId link, std::string_view ticket) {
    return book_.Fetch(runtime::MonotonicNow(), link, ticket);
  }

 private:
  static constexpr size_t kTicketBytes = 16;
  static constexpr size_t kKeyBytes = 32;

  void Settle(Time now) {
    book_.Expire(now);
    share_.Set(book_.bytes());
    expiry_.MoveTo(book_.NextDeadline());
  }

  FanOutBook book_;
  runtime::MemoryShare share_;
  DeadlineTimer expiry_;
};

}  // namespace lockstep::server
