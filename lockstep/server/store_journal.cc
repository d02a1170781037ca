#include "lockstep/server/store_journal.h"

#include "absl/time/clock.h"
#include "lockstep/server/entries.h"
#include "lockstep/wire/store/torch_entry.h"

namespace lockstep::server {

std::vector<std::string> StoreJournal::EntriesOf(absl::Span<const tcpstore::Record> records) const {
  return server::EntriesOf(records, [&](auto first, std::string& out) {
    return wire::store::EncodeTorchRecords(job_, absl::Now(), first, out);
  });
}

void StoreJournal::Write(absl::Span<const tcpstore::Record> records) {
  if (records.empty() || !writes()) return;
  commits_.Commit(EntriesOf(records), [](bool /*durable*/) {});
}

void StoreJournal::Commit(std::vector<std::string> entries, CommitQueue::Release release) {
  if (entries.empty()) return commits_.Follow(std::move(release));
  commits_.Commit(std::move(entries), std::move(release));
}

}  // namespace lockstep::server
