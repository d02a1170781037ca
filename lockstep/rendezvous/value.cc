#include "lockstep/rendezvous/value.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace lockstep::rendezvous {
namespace {

// By DLPack's code. The first ones are followed by the bits.
constexpr std::string_view kNames[] = {"int",
                                       "uint",
                                       "float",
                                       "opaque",
                                       "bfloat",
                                       "complex",
                                       "bool",
                                       "float8_e3m4",
                                       "float8_e4m3",
                                       "float8_e4m3b11fnuz",
                                       "float8_e4m3fn",
                                       "float8_e4m3fnuz",
                                       "float8_e5m2",
                                       "float8_e5m2fnuz",
                                       "float8_e8m0fnu",
                                       "float6_e2m3fn",
                                       "float6_e3m2fn",
                                       "float4_e2m1fn"};
constexpr uint8_t kBool = 6;
// The codes from here on have one width, which their name says.
constexpr uint8_t kSmallFloats = 7;
static_assert(kNames[kBool] == "bool" && kNames[kSmallFloats] == "float8_e3m4");

}  // namespace

std::string NameOf(ElementType type) {
  std::string name;
  if (type.code >= std::size(kNames)) {
    // Of a later DLPack: it can be sent all the same.
    name = absl::StrCat("code", int{type.code}, "_", int{type.bits});
  } else {
    name = std::string(kNames[type.code]);
    const bool width_known = type.code >= kSmallFloats || (type.code == kBool && type.bits == 8);
    if (!width_known) absl::StrAppend(&name, int{type.bits});
  }
  if (type.lanes != 1) absl::StrAppend(&name, "x", int{type.lanes});
  return name;
}

absl::StatusOr<uint64_t> BytesOf(ElementType type, std::span<const int64_t> shape) {
  if (type.bits == 0 || type.lanes == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the element type ", NameOf(type), " has no bits: bits and lanes are from 1"));
  }
  if (shape.size() > kRankMax) {
    return absl::InvalidArgumentError(absl::StrCat("the shape has ", shape.size(),
                                                   " dimensions, at most ", kRankMax,
                                                   " are allowed (rank_max)"));
  }
  for (const int64_t extent : shape) {
    if (extent < 0) {
      return absl::InvalidArgumentError(absl::StrCat("the shape has a dimension of ", extent));
    }
  }
  // Before the product: beside a 0, the other dimensions may be as large as they like.
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  constexpr uint64_t kBytesMax = std::numeric_limits<int64_t>::max();
  uint64_t bytes = (uint64_t{type.bits} * type.lanes + 7) / 8;
  for (const int64_t extent : shape) {
    // Asked before it is multiplied, which would wrap.
    if (bytes > kBytesMax / static_cast<uint64_t>(extent)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the shape has more than 2^63-1 bytes of ", NameOf(type)));
    }
    bytes *= static_cast<uint64_t>(extent);
  }
  return bytes;
}

}  // namespace lockstep::rendezvous
