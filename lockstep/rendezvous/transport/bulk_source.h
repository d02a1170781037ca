// What is fetched from one member.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "asio/steady_timer.hpp"
#include "lockstep/base/ids.h"
#include "lockstep/base/time.h"
#include "lockstep/rendezvous/error.h"
#include "lockstep/rendezvous/messages.h"
#include "lockstep/rendezvous/step_table.h"
#include "lockstep/rendezvous/transport/bulk_connection.h"
#include "lockstep/rendezvous/transport/bulk_loop.h"
#include "lockstep/rendezvous/transport/bulk_wire.h"
#include "lockstep/rendezvous/transport/card.h"
#include "lockstep/rendezvous/transport/process_memory.h"

namespace lockstep::transport {

struct BulkFetchOptions {
  std::vector<std::string> names;  // by index, for texts
  Card card;                       // ours
  uint64_t chunk_bytes = uint64_t{1} << 20;
  // `fetch_window_bytes`
  uint64_t window_bytes = uint64_t{16} << 20;
  // Shorter ones are not read from the sender's memory: that takes no less (bench/rendezvous).
  uint64_t place_bytes_min = uint64_t{256} << 10;
  // Of one member, known at a time: `fetch_places_max`.
  size_t places_max = 16;
  ProcessMemory::ReadFunction read_memory = ProcessMemory::SystemRead;
  // Without a byte for so long, the fetches of a member fail.
  absl::Duration stalled_after = absl::Seconds(30);
  absl::Duration dial_timeout = absl::Seconds(5);
  absl::Duration retry_first = absl::Milliseconds(10);
  absl::Duration retry_last = absl::Seconds(1);
};

struct BulkFetch {
  rendezvous::OpId op;
  MemberIndex from;
  rendezvous::LeaseId lease;
  std::byte* to = nullptr;  // stays until it has finished
  uint64_t bytes = 0;       // not 0
};

// The values take turns, a chunk each. With a member of this host whose memory can be read
// (ProcessMemory) it asks where a value lies, and copies it from there; else it asks for the bytes,
// no more than a window at a time. What has come is not fetched twice, whichever way.
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
  // How a value comes.
  enum class Way { kUndecided, kBytes, kPlace };
  struct Running {
    BulkFetch what;
    uint64_t asked = 0;
    uint64_t come = 0;
    Way way = Way::kUndecided;
    uint64_t address = 0;  // of its first byte, when it is read
  };
  using At = std::list<Running>::iterator;
  // On its way, in the order of asking.
  struct Chunk {
    std::optional<At> of;  // none: nobody wants it any more
    uint64_t lease = 0;
    uint64_t offset = 0;
    uint64_t bytes = 0;
    bool place = false;
  };

  BulkSource(BulkLoop& loop, std::shared_ptr<const BulkFetchOptions> options, MemberIndex member,
             Events events);
  BulkConnection::Events ConnectionEvents();

  void Abandon(At running);
  void Forget(At running);
  void Finish(At running, rendezvous::ErrorPtr error);
  void FailAll(absl::StatusCode code, rendezvous::Reason reason, const std::string& why);
  bool Broken(const absl::Status& why);
  void Reset();
  void LookForStall();

  // Asking, and what comes.
  void Ask();
  std::optional<Chunk> NextChunk(At running);
  BulkConnection::Room RoomFor();
  iovec BodyRoom();
  absl::Status Take(size_t count);
  absl::Status TakeHeader();
  absl::Status TakeBody(size_t count);
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
  asio::steady_timer look_;
  std::string last_failure_;
  Time heard_at_;  // bytes of a value

  std::list<Running> running_;
  At next_ = running_.begin();  // whose turn it is to ask
  std::deque<Chunk> asked_;
  uint64_t in_flight_ = 0;

  BulkHeaderBytes header_;
  size_t header_filled_ = 0;
  std::optional<BulkHeader> body_;  // of `asked_.front()`, while it comes
  uint64_t body_come_ = 0;
  std::array<char, kBulkPlaceBytes> place_;
  std::array<char, size_t{64} << 10> scratch_;

  std::optional<ProcessMemory> memory_;  // while it can be read
  size_t places_ = 0;                    // asked for, or known
  std::deque<At> reading_;               // in turn
  bool read_is_posted_ = false;
};

}  // namespace lockstep::transport
