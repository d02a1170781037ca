// Records of one event as entries of the journal. Each is as long as `entry_bytes_soft_max` allows,
// so that no number and no size of records makes one that is too long.
#pragma once

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "lockstep/platform/journal/journal.h"

namespace lockstep::server {

// `encode(records, entry)` appends the first of them and returns how many. At least one entry.
template <class Record, class Encode>
std::vector<std::string> EntriesOf(absl::Span<const Record> records, Encode encode) {
  std::vector<std::string> entries;
  do {
    std::string& entry = entries.emplace_back(journal::NewEntry());
    records.remove_prefix(encode(records, entry));
  } while (!records.empty());
  return entries;
}

}  // namespace lockstep::server
