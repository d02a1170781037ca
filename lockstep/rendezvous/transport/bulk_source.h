// What is fetched from one member.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "lockstep/base/ids.h"
#include "lockstep/rendezvous/error.h"
#include "lockstep/rendezvous/step_table.h"
#include "lockstep/rendezvous/transport/bulk_answer.h"
#include "lockstep/rendezvous/transport/bulk_connection.h"
#include "lockstep/rendezvous/transport/bulk_fetch.h"
#include "lockstep/rendezvous/transport/bulk_loop.h"
#include "lockstep/rendezvous/transport/bulk_wire.h"
#include "lockstep/rendezvous/transport/card.h"
#include "lockstep/rendezvous/transport/fetch_schedule.h"
#include "lockstep/rendezvous/transport/process_memory.h"
#include "lockstep/rendezvous/transport/stall_watch.h"

namespace lockstep::transport {

// The values take turns (FetchSchedule). With a member of this host whose memory can be read
// (ProcessMemory) it asks where a value lies, and copies it from there, a chunk at a time; else it
// asks for the bytes. What has come is not fetched twice, whichever way.
//
// Threads: confined to the bulk loop. Bounds: `window_bytes` on their way, `places_max`; the
// fetches, which the owner bounds.
class BulkSource : public std::enable_shared_from_this<BulkSource> {
 public:
  struct Events {
    std::function<void(BulkConnection::FoundCard)> find_card;
    std::function<std::string(const Card&)> hello;
    // Nothing is written any more; null: all of it has come. Once for each fetch.
    std::function<void(rendezvous::OpId, rendezvous::ErrorPtr)> finished;
    // With each connection, and when it changes: whether memory is read. Empty, or why not.
    std::function<void(std::string why_not)> reads_memory;
  };

  static std::shared_ptr<BulkSource> Make(BulkLoop& loop,
                                          std::shared_ptr<const BulkFetchOptions> options,
                                          MemberIndex member, Events events);
  ~BulkSource();

  void Add(const BulkFetch& fetch);
  // False: it is not here any more. It does not finish.
  bool Remove(rendezvous::OpId op);
  // None of them finishes.
  void Close();

 private:
  using Running = FetchSchedule::Running;
  using At = FetchSchedule::At;
  using Chunk = FetchSchedule::Chunk;

  BulkSource(BulkLoop& loop, std::shared_ptr<const BulkFetchOptions> options, MemberIndex member,
             Events events);
  BulkConnection::Events ConnectionEvents();

  void Forget(At running);
  void Finish(At running, rendezvous::ErrorPtr error);
  void FailAll(absl::StatusCode code, rendezvous::Reason reason, const std::string& why);
  bool Broken(const absl::Status& why);
  // What was asked for on the connection does not come.
  void Reset();
  void Stalled();

  // Asking, and what comes.
  void Ask();
  // Where the first byte of the value goes whose bytes come next; null: nobody wants them.
  std::byte* Destination() const;
  absl::Status Take(size_t count);
  absl::Status TakeHeader();
  absl::Status EndChunk();
  absl::Status EndChunkOf(At running, const Chunk& chunk, BulkCode code);

  // Reading memory.
  void Prove(const Card& card, const wire::native::PeerWelcome& welcome);
  absl::Status TakePlace(At running, const Chunk& chunk);
  void LeavePlace(Running& running);
  void FetchBytesOf(At running);
  void ReadSoon();
  void ReadOne();
  void CannotRead(At running, const absl::Status& why);

  BulkLoop& loop_;
  const std::shared_ptr<const BulkFetchOptions> options_;
  const std::string name_;
  const Events events_;
  std::shared_ptr<BulkConnection> connection_;
  StallWatch stall_watch_;  // of bytes of values
  std::string last_failure_;
  FetchSchedule schedule_;
  BulkAnswer answer_;

  std::optional<ProcessMemory> memory_;  // while it can be read
  std::deque<At> reading_;               // in turn
  bool read_is_posted_ = false;
};

}  // namespace lockstep::transport
