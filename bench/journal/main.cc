// How long one waits for the journal: entries one after the other, and many at once.
//
//   journal_bench DIRECTORY [ENTRIES] [BYTES]
//
// Makes a journal in DIRECTORY, which must not exist yet, on the disk that is to be measured, and
// prints for each way: entries a second; of the wait until an entry is durable the median, the
// 99th and 99.9th percentile and the longest.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "lockstep/platform/journal/sqlite_journal.h"

namespace lockstep::journal {
namespace {

using Clock = std::chrono::steady_clock;

// So many are appended before the first is waited for.
constexpr size_t kOutstanding[] = {1, 64, 1024};
// A snapshot of so many bytes is taken while entries are written one after the other.
constexpr size_t kSnapshotEntryBytes = 16 << 10;
constexpr int kSnapshotEntries = 4096;

class Bench {
 public:
  explicit Bench(SqliteJournal& journal) : journal_(journal) {}

  absl::Status Start() {
    return journal_.Start(
        [this](uint64_t through) {
          through_.store(through);
          through_.notify_one();
        },
        [](const absl::Status& reason) {
          std::fprintf(stderr, "%s\n", std::string(reason.message()).c_str());
          std::exit(1);
        });
  }

  void Run(const char* what, size_t outstanding, size_t entries, size_t bytes) {
    std::vector<Clock::time_point> begun(entries);
    std::vector<double> waits;
    const Clock::time_point start = Clock::now();
    size_t appended = 0;
    while (waits.size() < entries) {
      while (appended < entries && appended - waits.size() < outstanding) {
        begun[appended++] = Clock::now();
        last_ = journal_.Append(NewEntry() + std::string(bytes, 'x'));
      }
      // Of this run, those before the ones that are still outstanding.
      const uint64_t first = last_ - appended;
      through_.wait(first + waits.size());
      const Clock::time_point now = Clock::now();
      for (const uint64_t through = through_.load(); first + waits.size() < through;) {
        waits.push_back(
            std::chrono::duration<double, std::micro>(now - begun[waits.size()]).count());
      }
    }
    const std::chrono::duration<double> all = Clock::now() - start;
    std::sort(waits.begin(), waits.end());
    const auto at = [&](double part) {
      return waits[static_cast<size_t>(part * static_cast<double>(entries - 1))];
    };
    std::printf("%-28s %9.0f/s  median %7.0f  p99 %7.0f  p99.9 %7.0f  longest %7.0f us\n", what,
                static_cast<double>(entries) / all.count(), at(0.5), at(0.99), at(0.999), at(1));
    std::fflush(stdout);
  }

  void Snapshot() {
    journal_.BeginSnapshot([left = kSnapshotEntries]() mutable -> std::optional<std::string> {
      if (left-- == 0) return std::nullopt;
      return NewEntry() + std::string(kSnapshotEntryBytes, 's');
    });
  }

 private:
  SqliteJournal& journal_;
  std::atomic<uint64_t> through_ = 0;
  uint64_t last_ = 0;
};

int Main(const std::string& directory, size_t entries, size_t bytes) {
  const Clock::time_point start = Clock::now();
  auto journal = SqliteJournal::Open({.directory = directory});
  absl::Status status = journal.status();
  const auto none = [](std::string_view) { return absl::InternalError("it is not a new one"); };
  if (status.ok()) status = (*journal)->Replay(none).status();
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
    return 1;
  }
  Bench bench(**journal);
  if (!bench.Start().ok()) return 1;
  const std::chrono::duration<double, std::milli> opened = Clock::now() - start;
  std::printf("opened in %.1f ms\n", opened.count());
  for (const size_t outstanding : kOutstanding) {
    const std::string what = std::to_string(outstanding) + " at once";
    bench.Run(what.c_str(), outstanding, entries * (outstanding == 1 ? 1 : 20), bytes);
  }
  bench.Run("1 at once, 64 KiB each", 1, entries / 4, 64 << 10);
  bench.Snapshot();
  bench.Run("1 at once, in a snapshot", 1, entries / 4, bytes);
  return (*journal)->Close().ok() ? 0 : 1;
}

}  // namespace
}  // namespace lockstep::journal

int main(int argc, char** argv) {
  size_t entries = 8000;
  size_t bytes = 150;
  if (argc < 2 || argc > 4 || (argc > 2 && !absl::SimpleAtoi(argv[2], &entries)) ||
      (argc > 3 && !absl::SimpleAtoi(argv[3], &bytes)) || entries < 8) {
    std::fprintf(stderr, "usage: journal_bench DIRECTORY [ENTRIES] [BYTES]\n");
    return 2;
  }
  return lockstep::journal::Main(argv[1], entries, bytes);
}
