// What a key's name tells about ranks. Pure.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"

namespace lockstep::tcpstore {

// The rank that a key belongs to, where its name ends in one: `/default_pg/0//cpu//0/3` and
// `/x/rank_3` are rank 3's. Ranks set such a key of their own when they start, and wait for those
// of the others.
std::optional<int32_t> RankOfKey(absl::string_view key);

}  // namespace lockstep::tcpstore
