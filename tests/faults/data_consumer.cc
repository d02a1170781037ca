// A consumer of a first-come iteration that may be killed at any moment: it writes each element and
// its place into a file, in one piece, before it acknowledges it. data_kills_test.cc runs it.
//
//   data_consumer ADDRESS ITERATION NAME FILE ELEMENTS BATCH SEGMENT PAUSE_US
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "tests/faults/data_log.h"

int main(int argc, char** argv) {
  using namespace lockstep;
  using namespace lockstep::faults;
  if (argc != 9) return 2;
  const std::string path = argv[4];
  DataReaderOptions options = {
      .address = argv[1],
      .definition = NumbersInBatches(std::atoll(argv[5]), std::atoll(argv[6]), std::atoll(argv[7])),
      .name = argv[2],
      .consumer = argv[3],
      .acknowledge_by_itself = false,
      .timeout = absl::Seconds(60)};
  options.have = MarksOf(ReadLog(path));
  auto reader = DataReader::Open(options);
  if (!reader.ok()) {
    std::fprintf(stderr, "%s: %s\n", argv[3], reader.status().ToString().c_str());
    return 1;
  }
  const int log = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (log < 0) return 1;
  const auto append = [&](const LogRecord& record) {
    return ::write(log, &record, sizeof(record)) == sizeof(record);
  };
  if ((*reader)->lease_had_ended()) {
    if (!append({.kind = LogKind::kLeaseEnded})) return 1;
    for (const ReadMark& mark : (*reader)->counted()) {
      const LogRecord record = {
          .kind = LogKind::kCounted, .lane = mark.lane, .seq = mark.seq, .element = mark.elements};
      if (!append(record)) return 1;
    }
  }
  for (;;) {
    auto element = (*reader)->Next({.timeout = absl::Seconds(60)});
    if (!element.ok()) {
      std::fprintf(stderr, "%s: %s\n", argv[3], element.status().ToString().c_str());
      return 1;
    }
    if (!element->has_value()) return 0;
    const ElementPlace& place = (*element)->place();
    const auto [first, count] = FirstAndCount((*element)->frame());
    const LogRecord record = {.lane = place.lane,
                              .seq = place.seq,
                              .segment = place.segment,
                              .element = place.element,
                              .first = first,
                              .count = count};
    if (!append(record)) return 1;
    if (!(*reader)->Acknowledge(place).ok()) return 1;
    std::this_thread::sleep_for(std::chrono::microseconds(std::atoll(argv[8])));
  }
}
