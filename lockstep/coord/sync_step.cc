#include "lockstep/coord/sync_step.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "lockstep/base/check.h"

namespace lockstep::coord {
namespace {

// Products of two steps, on the way.
__extension__ typedef __int128 Wide;

// Of `a` modulo `m`, which has no common factor with it: Euclid's extended algorithm.
int64_t InverseOf(int64_t a, int64_t m) {
  Wide r = m, next_r = a % m;
  Wide t = 0, next_t = 1;
  while (next_r != 0) {
    const Wide quotient = r / next_r;
    r = std::exchange(next_r, r - quotient * next_r);
    t = std::exchange(next_t, t - quotient * next_t);
  }
  LOCKSTEP_DCHECK(r == 1);  // no common factor
  return static_cast<int64_t>(t < 0 ? t + m : t);
}

// The steps x with x = rest (modulo stride): one arithmetic progression.
struct Progression {
  int64_t rest = 0;
  int64_t stride = 1;

  // What is in both (the Chinese remainder theorem); absent when nothing is.
  std::optional<Progression> Meet(const StepOffer& offer) const {
    LOCKSTEP_DCHECK(rest >= 0 && rest < stride);
    const int64_t common = std::gcd(stride, offer.stride);
    const int64_t apart = offer.first - rest;
    // Both step in units of `common`, so they keep their distance for ever.
    if (apart % common != 0) return std::nullopt;
    const int64_t own = stride / common;
    const int64_t others = offer.stride / common;
    if (others == 1) return *this;  // the usual case: each of our steps is one of its
    int64_t both = 0;
    // A common stride beyond 64 bits is as good as none.
    if (__builtin_mul_overflow(own, offer.stride, &both)) return std::nullopt;
    // How many of our own strides lead to a step of the other.
    Wide times = Wide{apart / common % others} * InverseOf(own, others) % others;
    if (times < 0) times += others;
    LOCKSTEP_DCHECK(times >= 0 && times < others);
    return Progression{static_cast<int64_t>((Wide{rest} + Wide{stride} * times) % both), both};
  }
};

}  // namespace

std::optional<int64_t> LowestCommonStep(const std::vector<StepOffer>& offers) {
  LOCKSTEP_CHECK(!offers.empty());
  Progression all;
  int64_t from = 0;
  for (const StepOffer& offer : offers) {
    LOCKSTEP_CHECK(offer.first >= 0 && offer.stride > 0);
    from = std::max(from, offer.first);
    const std::optional<Progression> met = all.Meet(offer);
    if (!met) return std::nullopt;
    all = *met;
  }
  // The progression may begin before the highest offer: members have passed those steps.
  const Wide short_of = Wide{from} - all.rest;
  const Wide times = short_of <= 0 ? 0 : (short_of + all.stride - 1) / all.stride;
  const Wide step = Wide{all.rest} + times * all.stride;
  LOCKSTEP_DCHECK(step >= from);
  // Computed in 128 bits, told in 64.
  if (step > std::numeric_limits<int64_t>::max()) return std::nullopt;
  return static_cast<int64_t>(step);
}

}  // namespace lockstep::coord
