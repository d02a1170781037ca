// Runs of memory that are cut into blocks of one size. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "lockstep/base/check.h"

namespace lockstep::transport::internal {

// Pages with one owner: a slab, or a large block.
struct Run {
  uint32_t segment = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

// A run that is cut into blocks of one size.
struct Slab {
  Run run;
  std::byte* data = nullptr;
  uint64_t block_bytes = 0;
  uint32_t blocks = 0;
  uint32_t cut = 0;             // blocks that were given out at least once: the first ones
  std::vector<uint32_t> given;  // of those, the ones that came back
  uint32_t in_use = 0;
  size_t place_in_list = 0;  // in the list of slabs with room, when it has

  bool has_room() const { return in_use < blocks; }
};

// All slabs, and by the size of their blocks those that have room. Threads: thread-compatible.
// Bounds: those of whoever adds. Slabs stay where they are until they are removed.
class SlabTable {
 public:
  // Null: none of this size has room; add one.
  Slab* WithRoom(uint64_t block_bytes) {
    const auto list = with_room_.find(block_bytes);
    return list == with_room_.end() || list->second.empty() ? nullptr : list->second.back();
  }
  // A slab of blocks in `run`, whose first byte is `data`; all have room. Lives until it is
  // removed.
  Slab* Add(const Run& run, std::byte* data, uint64_t block_bytes) {
    auto slab = std::make_unique<Slab>();
    slab->run = run;
    slab->data = data;
    slab->block_bytes = block_bytes;
    slab->blocks = static_cast<uint32_t>(run.bytes / block_bytes);
    Slab* const added = slab.get();
    slabs_.emplace(added, std::move(slab));
    List(added);
    return added;
  }

  // The index of a block that nobody has. The slab has room. Those that were used before come
  // first: their memory is warm.
  uint32_t TakeBlock(Slab* slab) {
    LOCKSTEP_DCHECK(slab->has_room());
    uint32_t index = slab->cut;
    if (slab->given.empty()) {
      ++slab->cut;
    } else {
      index = slab->given.back();
      slab->given.pop_back();
    }
    ++slab->in_use;
    if (!slab->has_room()) Unlist(slab);
    return index;
  }
  // True: none of its blocks is in use; remove it.
  bool GiveBlock(Slab* slab, uint32_t index) {
    LOCKSTEP_DCHECK(slab->in_use > 0 && index < slab->cut);
    if (!slab->has_room()) List(slab);
    slab->given.push_back(index);
    return --slab->in_use == 0;
  }
  // Returns its run.
  Run Remove(Slab* slab) {
    LOCKSTEP_DCHECK(slab->in_use == 0);
    Unlist(slab);
    const Run run = slab->run;
    slabs_.erase(slab);
    return run;
  }

 private:
  void List(Slab* slab) {
    std::vector<Slab*>& list = with_room_[slab->block_bytes];
    slab->place_in_list = list.size();
    list.push_back(slab);
  }
  // The last of the list takes its place.
  void Unlist(Slab* slab) {
    std::vector<Slab*>& list = with_room_[slab->block_bytes];
    Slab* const last = list.back();
    list[slab->place_in_list] = last;
    last->place_in_list = slab->place_in_list;
    list.pop_back();
  }

  absl::flat_hash_map<Slab*, std::unique_ptr<Slab>> slabs_;
  absl::flat_hash_map<uint64_t, std::vector<Slab*>> with_room_;  // by the size of their blocks
};

}  // namespace lockstep::transport::internal
