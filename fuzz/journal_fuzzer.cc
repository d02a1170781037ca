#include "fuzz/journal_fuzzer.h"

#include <string>

#include "lockstep/base/check.h"
#include "lockstep/platform/journal/framing.h"
#include "lockstep/platform/journal/mark.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/store/entry.h"
#include "lockstep/wire/store/records_messages.h"

namespace lockstep::fuzz {
namespace {

namespace store = wire::store;

const store::Moment kNow = {.now = Time::FromNanoseconds(1'000'000'000'000),
                            .wall = absl::FromUnixSeconds(2'000'000'000)};

// What was read is written and read again: as much, and the same from then on.
void ReadEntry(std::string_view bytes) {
  const auto entry = store::DecodeEntry(bytes, kNow);
  if (!entry.ok()) return;
  for (const coord::TimedRecord& record : entry->records) LOCKSTEP_CHECK(record.at <= kNow.now);
  std::string once;
  store::EncodeRecords(entry->job, kNow, entry->records, once);
  const auto again = store::DecodeEntry(once, kNow);
  LOCKSTEP_CHECK(again.ok() && again->records.size() == entry->records.size());
  std::string twice;
  store::EncodeRecords(again->job, kNow, again->records, twice);
  LOCKSTEP_CHECK(once == twice);
}

void ReadRow(std::string_view bytes) {
  std::string whole;
  const absl::Status status = journal::ReadEntries(bytes, [&](std::string_view entry) {
    std::string sealed = journal::NewEntry();
    sealed.append(entry);
    LOCKSTEP_CHECK(journal::SealEntry(sealed).ok());
    whole += sealed;
    ReadEntry(entry);
    return absl::OkStatus();
  });
  LOCKSTEP_CHECK(!status.ok() || whole == bytes);
}

void ReadMark(std::string_view bytes) {
  const auto mark = journal::ParseMark(bytes);
  LOCKSTEP_CHECK(!mark.ok() || journal::MarkText(*mark) == bytes);
}

}  // namespace

void ReadJournal(std::string_view bytes) {
  if (bytes.empty()) return;
  const char choice = bytes.front();
  bytes.remove_prefix(1);
  switch (choice) {
    case 'r':
      return ReadRow(bytes);
    case 'e':
      return ReadEntry(bytes);
    case 'm':
      return ReadMark(bytes);
    case 's': {
      const auto end = journal::DecodeSnapshotEnd(bytes);
      LOCKSTEP_CHECK(!end.ok() || journal::EncodeSnapshotEnd(*end) == bytes);
      return;
    }
    default:
      return;
  }
}

}  // namespace lockstep::fuzz
