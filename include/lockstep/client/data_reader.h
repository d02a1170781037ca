// Reading a dataset through the data service. Public.
//
//   auto reader = lockstep::DataReader::Open({.address = "127.0.0.1:7070",
//                                             .definition = definition,
//                                             .name = "train"});
//   for (;;) {
//     auto element = (*reader)->Next({.timeout = absl::Seconds(60)});
//     if (!element.ok()) ...        // why, and who is waited for
//     if (!element->has_value()) break;  // the end
//     Train((*element)->frame());
//   }
//
// Workers that die, and a server that is started again, are waited out: the reader goes on where it
// was. What an element's frame is: docs/formats/data.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lockstep/client/call.h"
#include "lockstep/data/plan/definition.h"

namespace lockstep {

enum class ReadOrder {
  kFirstCome,  // each element to whoever asks first
  kExact,      // element n of a local run to consumer n % consumers
  kRounds,     // in each step all consumers read from the same worker
};
enum class ReadSharding { kDynamic, kOff, kStaticData, kStaticFile, kHint };
enum class ReadVisitation { kExactlyOnce, kAtLeastOnce, kAtMostOnce };
// Rounds: what the others do when a consumer is lost.
enum class ReadOnLost {
  kAuto,  // as kWait, when consumers keep cursors or are members of a job; else kGoOn
  kWait,  // wait for its successor, for which all its elements are kept
  kGoOn,  // read on without it; what it alone would have read is missing
};

// Where an element stood, so that a program can keep it with what it made of it.
struct ElementPlace {
  int64_t lane = 0;
  int64_t seq = 0;
  int64_t segment = 0;
  int64_t element = 0;  // of the segment
  int64_t round = -1;   // rounds
  int64_t task = 0;     // rounds: whose turn it was
};

// First come: what a program has safely of one segment that it was given.
struct ReadMark {
  int64_t lane = 0;
  int64_t seq = 0;
  int64_t elements = 0;
  bool done = false;
};

struct DataReaderOptions {
  std::string address;          // as JoinOptions
  plan::Definition definition;  // of the dataset; or, with no nodes:
  std::string dataset;          // the name under which it was registered

  // The iteration: who gives the same name and repetition reads it together. Empty: one of its own.
  std::string name;
  int64_t repetition = 0;
  ReadOrder order = ReadOrder::kFirstCome;
  ReadSharding sharding = ReadSharding::kDynamic;
  ReadVisitation visitation = ReadVisitation::kExactlyOnce;
  ReadOnLost on_lost = ReadOnLost::kAuto;  // rounds
  int32_t consumers = 0;                   // exact and rounds: how many read
  int32_t index = -1;  // exact and rounds: which of them this is; -1: any that is free
  int32_t shares = 0;  // static sharding
  std::vector<std::string> worker_addresses;  // static sharding
  std::string cursor;                         // where it starts: what `Cursor` gave

  // This consumer's name within the iteration: under it a process that comes back is the same
  // consumer. Empty: a name of this process's own.
  std::string consumer;
  // It is a member of a job: who takes its place there takes it here.
  bool member = false;
  // What the process has safely from its former life (`Marks`); exact and rounds: its cursor.
  std::vector<ReadMark> have;
  std::string rejoin;

  // An element is done with when the next one is asked for; otherwise when `Acknowledge` says so.
  bool acknowledge_by_itself = true;
  // Otherwise: so many elements, of so many bytes, may be handed out and not acknowledged. `Next`
  // fails then with FAILED_PRECONDITION, reason `ack_needed`, and goes on after `Acknowledge`.
  int64_t unacknowledged_max = 10'000;
  uint64_t unacknowledged_bytes_max = uint64_t{1} << 30;
  uint64_t read_bytes_max = uint64_t{64} << 20;  // read ahead
  // Links to workers that are kept although nothing is asked over them.
  int32_t worker_links_max = 256;
  absl::Duration timeout = absl::Seconds(30);  // until it is open
  // A reader that reaches nobody fails after so long.
  absl::Duration give_up_after = absl::InfiniteDuration();
  Interrupted interrupted = nullptr;  // while it opens
};

// One element, in the memory that it arrived in. Copies share it; it may outlive its reader.
class DataElement {
 public:
  // For the library: `frame` points to `bytes` bytes and keeps them.
  DataElement(std::shared_ptr<const void> frame, size_t bytes, const ElementPlace& place)
      : frame_(std::move(frame)), bytes_(bytes), place_(place) {}

  // docs/formats/data.md; good while a copy of this element, or of `keeps()`, lives.
  std::span<const std::byte> frame() const {
    return {static_cast<const std::byte*>(frame_.get()), bytes_};
  }
  // Points to the frame and keeps it.
  const std::shared_ptr<const void>& keeps() const { return frame_; }
  const ElementPlace& place() const { return place_; }

 private:
  std::shared_ptr<const void> frame_;
  size_t bytes_;
  ElementPlace place_;
};

// A moment of a reader, for people and metrics.
struct DataReaderView {
  std::string state;      // "opening", "reading", "finished"...
  std::string waits_for;  // what the program waits for; empty: it does not wait
  int64_t elements = 0;   // handed out
  int64_t bytes = 0;
  int64_t round = -1;
  uint64_t buffered_bytes = 0;
  int64_t reads = 0;   // requests to workers that were answered
  int64_t stalls = 0;  // elements that had to be waited for
  absl::Duration stalled;
  int64_t dropped = 0;          // rounds: elements of last turns that were not whole
  int64_t shared_elements = 0;  // of those read, in shared memory
  // First come, without `acknowledge_by_itself`: handed out and not acknowledged.
  int64_t unacknowledged = 0;
  uint64_t unacknowledged_bytes = 0;
};

// One consumer of one iteration.
//
// Threads: thread-safe; elements go to those who ask in the order of their asking. In a forked
// child every call fails with `forked`, and the parent's reader is untouched. Bounds:
// `read_bytes_max`, but for one answer of each worker; `worker_links_max`.
class DataReader {
 public:
  // Registers the dataset, opens the iteration and becomes its consumer.
  static absl::StatusOr<std::unique_ptr<DataReader>> Open(DataReaderOptions options);
  // As `Close`.
  ~DataReader();
  DataReader(const DataReader&) = delete;
  DataReader& operator=(const DataReader&) = delete;

  // The next element; nothing: the end. DEADLINE_EXCEEDED says what was waited for, since when and
  // what to do; nothing is lost by it.
  absl::StatusOr<std::optional<DataElement>> Next(CallOptions options = {});

  // Without `acknowledge_by_itself`: all that was handed out of this element's lane, up to it, need
  // not be given to anybody again. First come.
  absl::Status Acknowledge(const ElementPlace& place);
  // The same, of all that was handed out so far.
  absl::Status AcknowledgeAll();

  // Exact and rounds: where the next element is, in some hundred bytes.
  absl::StatusOr<std::string> Cursor() const;
  // First come: what is acknowledged, for `have` of this consumer's next life.
  std::vector<ReadMark> Marks() const;

  // Leaves the iteration; who waits is told CANCELLED.
  void Close();

  const std::string& name() const;      // of the iteration
  const std::string& consumer() const;  // its own
  // As plan::ToText says it; unknown sizes in it are known only of each element. Empty: only the
  // dataset's files can tell.
  const std::string& element_spec() const;
  // What the process had not acknowledged in its former life has been given to others, and what it
  // did beyond `counted` is void.
  bool lease_had_ended() const;
  // Then: of the segments that it had not acknowledged in full, what counts.
  const std::vector<ReadMark>& counted() const;
  // As of now; asks no server. In a forked child only `state` is filled in: "forked".
  DataReaderView View() const;

 private:
  class Impl;
  explicit DataReader(std::shared_ptr<Impl> impl);
  const std::shared_ptr<Impl> impl_;
};

}  // namespace lockstep
