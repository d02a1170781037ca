// The tables of the journal on disk, as docs/formats/journal.md describes them.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "lockstep/platform/journal/sqlite_database.h"

namespace lockstep::journal {

// 2: entries of the data service; 3: of torch's stores; 4: events, keys whose member is gone; 5:
// what agents pass on to torch's stores.
inline constexpr int kFormatVersion = 5;
// What it reads; a journal of an older version becomes one of this when it is opened.
inline constexpr int kFormatVersionMin = 1;

// DATA_LOSS, with the database's path and the place in it.
absl::Status Damaged(const Database& database, const std::string& place, const std::string& what);

// Makes the tables of an empty database, with pages of `page_bytes`; checks those of another one.
// DATA_LOSS: they are not ours, or damaged. FAILED_PRECONDITION: a newer format.
absl::Status MakeOrCheckTables(Database& database, int page_bytes);

}  // namespace lockstep::journal
