#include "lockstep/server/job_memory.h"

#include "absl/strings/str_cat.h"
#include "lockstep/server/writes_awaiting_disk.h"

namespace lockstep::server {
namespace {

// The listening sockets, the listeners and their tables, before anybody comes.
constexpr size_t kEmptyJobBytes = size_t{48} << 10;
// A record of a key while a snapshot is written.
constexpr size_t kRecordOfKeyBytes = 192;

}  // namespace

std::string JobMemory::OwnerOf(const std::string& job) { return absl::StrCat("job '", job, "'"); }

JobMemory::JobMemory(runtime::MemoryAccount& memory, const std::string& job)
    : memory_(memory),
      keys_(&memory, OwnerOf(job), "keys and waits for keys"),
      others_(&memory, OwnerOf(job), "members, sessions and barriers") {}

coord::NoRoom JobMemory::RoomFor(const coord::Event& event, bool durable) {
  // The value as it came, as it is kept, and as an entry of the journal.
  const size_t copies = durable ? 3 : 2;
  const size_t bytes = copies * GrowthOf(event);
  if (memory_.HasRoom(bytes) || !MayGrow(event)) return {};
  const coord::ErrorPtr why =
      coord::MakeError(absl::StatusCode::kResourceExhausted, coord::Reason::kMemoryMax,
                       absl::StrCat(memory_.Refusal(bytes), "; nothing was changed"));
  return {.for_new = why, .for_small = memory_.HasReserve() ? nullptr : why};
}

void JobMemory::Count(const coord::CoordinatorMemory& held, size_t beside, bool durable) {
  keys_.Set(held.keys + (durable ? held.key_count * kRecordOfKeyBytes : 0));
  others_.Set(kEmptyJobBytes + held.others + beside);
}

}  // namespace lockstep::server
