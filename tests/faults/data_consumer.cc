// A consumer that may be killed at any moment: it writes each element, and where that leaves it,
// into a file in one piece before it takes the next one. Started again with the same words it goes
// on where its file ends. data_kills_test.cc runs it.
//
//   data_consumer ADDRESS ITERATION REPETITION ORDER INDEX CONSUMERS FILE ELEMENTS BATCH SEGMENT
//                 PAUSE_US
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/wire/native/error_reply.h"
#include "tests/faults/data_log.h"

namespace lockstep::faults {
namespace {

// First come: so many elements are acknowledged at a time.
constexpr int kAcknowledgedEach = 100;

enum Word {
  kProgram,
  kAddress,
  kIteration,
  kRepetition,
  kOrder,
  kIndex,
  kConsumers,
  kFile,
  kElements,
  kBatch,
  kSegment,
  kPause,
  kWords
};

class Consumer {
 public:
  Consumer(char** words, ReadOrder order)
      : path_(words[kFile]),
        name_(absl::StrCat("consumer-", words[kIndex])),
        pause_(std::atoll(words[kPause])) {
    options_ = {
        .address = words[kAddress],
        .definition = NumbersInBatches(std::atoll(words[kElements]), std::atoll(words[kBatch]),
                                       std::atoll(words[kSegment])),
        .name = words[kIteration],
        .repetition = std::atoll(words[kRepetition]),
        .order = order,
        .consumer = name_,
        .acknowledge_by_itself = order != ReadOrder::kFirstCome,
        .timeout = absl::Seconds(60)};
    if (order == ReadOrder::kFirstCome) {
      DropTornRecord<LogRecord>(path_);
      options_.have = MarksOf(ReadLog(path_));
    } else {
      DropTornRecord<CursorRecord>(path_);
      options_.consumers = std::atoi(words[kConsumers]);
      options_.index = std::atoi(words[kIndex]);
      if (order == ReadOrder::kRounds) options_.on_lost = ReadOnLost::kWait;
      options_.rejoin = LastCursor(ReadLog<CursorRecord>(path_));
    }
  }

  // The program's exit code.
  int Run() {
    auto reader = DataReader::Open(options_);
    if (!reader.ok()) return Fail(reader.status());
    reader_ = *std::move(reader);
    log_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log_ < 0 || !WriteWhatIsVoid()) return 1;
    for (;;) {
      auto element = reader_->Next({.timeout = absl::Seconds(60)});
      if (wire::native::ReasonOf(element.status()) == "ack_needed") {
        if (absl::Status status = AcknowledgeAll(); !status.ok()) return Fail(status);
        continue;
      }
      if (!element.ok()) return Fail(element.status());
      if (!element->has_value()) {
        const absl::Status status = AcknowledgeAll();
        return status.ok() ? 0 : Fail(status);
      }
      if (absl::Status status = Take(**element); !status.ok()) return Fail(status);
      if (pause_ > 0) std::this_thread::sleep_for(std::chrono::microseconds(pause_));
    }
  }

 private:
  int Fail(const absl::Status& why) const {
    std::fprintf(stderr, "%s: %s\n", name_.c_str(), why.ToString().c_str());
    return 1;
  }
  template <class Record>
  bool Append(const Record& record) const {
    return ::write(log_, &record, sizeof(record)) == sizeof(record);
  }

  bool WriteWhatIsVoid() const {
    if (!reader_->lease_had_ended()) return true;
    if (options_.order != ReadOrder::kFirstCome) return true;  // the cursor decides
    if (!Append(LogRecord{.kind = LogKind::kLeaseEnded})) return false;
    for (const ReadMark& mark : reader_->counted()) {
      const LogRecord record = {
          .kind = LogKind::kCounted, .lane = mark.lane, .seq = mark.seq, .element = mark.elements};
      if (!Append(record)) return false;
    }
    return true;
  }

  absl::Status AcknowledgeAll() {
    held_ = 0;
    return options_.order == ReadOrder::kFirstCome ? reader_->AcknowledgeAll() : absl::OkStatus();
  }

  absl::Status Take(const DataElement& element) {
    const ElementPlace& place = element.place();
    const auto [first, count] = FirstAndCount(element.frame());
    const LogRecord taken = {.lane = place.lane,
                             .seq = place.seq,
                             .segment = place.segment,
                             .element = place.element,
                             .first = first,
                             .count = count};
    if (options_.order == ReadOrder::kFirstCome) {
      if (!Append(taken)) return absl::DataLossError("the file cannot be written");
      return ++held_ < kAcknowledgedEach ? absl::OkStatus() : AcknowledgeAll();
    }
    const auto cursor = reader_->Cursor();
    if (!cursor.ok()) return cursor.status();
    CursorRecord record = {.taken = taken};
    if (cursor->size() > sizeof(record.cursor)) {
      return absl::OutOfRangeError(absl::StrCat("a cursor of ", cursor->size(), " bytes"));
    }
    record.taken.cursor_bytes = static_cast<uint32_t>(cursor->size());
    std::memcpy(record.cursor, cursor->data(), cursor->size());
    return Append(record) ? absl::OkStatus() : absl::DataLossError("the file cannot be written");
  }

  const std::string path_;
  const std::string name_;
  const int64_t pause_;
  DataReaderOptions options_;
  std::unique_ptr<DataReader> reader_;
  int log_ = -1;
  int held_ = 0;
};

}  // namespace
}  // namespace lockstep::faults

int main(int argc, char** argv) {
  using namespace lockstep::faults;
  if (argc != kWords) return 2;
  const auto order = OrderOf(argv[kOrder]);
  return order ? Consumer(argv, *order).Run() : 2;
}
