// Which step members that work in strides of their own all come by. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace lockstep::coord {

// The steps at which a member can still act: `first`, `first + stride`, `first + 2 * stride`...
struct StepOffer {
  int64_t first = 0;
  int64_t stride = 1;  // above zero
};

// The lowest step that is in all of the offers; absent when there is none that fits in 64 bits.
// Above all when strides and phases never meet: one acts on even steps, another on odd ones.
// `offers` is not empty, and nothing in it is below zero.
std::optional<int64_t> LowestCommonStep(const std::vector<StepOffer>& offers);

}  // namespace lockstep::coord
