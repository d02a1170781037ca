#include "lockstep/data/dispatch/cursor.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "lockstep/base/crc32c.h"

namespace lockstep::dispatch {

namespace {

constexpr char kVersion[] = "lockstep-cursor-1";

std::string Check(const std::string& text) { return absl::StrFormat("%08x", Crc32c(0, text)); }

ErrorPtr Invalid(std::string_view why) {
  return MakeError(absl::StatusCode::kInvalidArgument, reason::kCursorInvalid,
                   absl::StrCat("this is no cursor of ours: ", std::string(why)));
}

bool ReadNumber(absl::string_view text, int64_t& number) {
  return absl::SimpleAtoi(text, &number) && IsCount(number);
}

}  // namespace

bool SamePlace(const Cursor& a, const Cursor& b) {
  return a.definition == b.definition && a.mode == b.mode && a.elements == b.elements &&
         a.round == b.round && a.place == b.place;
}

// VERSION.definition.mode.elements.round.place.next.rests.check; a rest is `segment` or
// `segment:from`, and `segment-last` stands for whole segments one behind the other.
std::string EncodeCursor(const Cursor& cursor) {
  std::string rests;
  for (size_t i = 0; i < cursor.rests.size(); ++i) {
    const SegmentRest& rest = cursor.rests[i];
    if (!rests.empty()) rests += ',';
    absl::StrAppend(&rests, rest.segment);
    if (rest.from > 0) {
      absl::StrAppend(&rests, ":", rest.from);
      continue;
    }
    int64_t last = rest.segment;
    while (i + 1 < cursor.rests.size() && cursor.rests[i + 1].from == 0 &&
           cursor.rests[i + 1].segment == last + 1) {
      ++last;
      ++i;
    }
    if (last > rest.segment) absl::StrAppend(&rests, "-", last);
  }
  std::string text = absl::StrCat(kVersion, ".", cursor.definition, ".",
                                  std::string(ModeName(cursor.mode)), ".", cursor.elements, ".",
                                  cursor.round, ".", cursor.place, ".", cursor.next, ".", rests);
  return absl::StrCat(text, ".", Check(text));
}

std::variant<Cursor, ErrorPtr> DecodeCursor(std::string_view text_in) {
  constexpr int64_t kRestsMax = 65'536;
  const std::string text(text_in);
  const std::vector<std::string> parts = absl::StrSplit(text, '.');
  // The version first: a text of another one may have other parts.
  if (parts.front() != kVersion) return Invalid("it begins otherwise");
  if (parts.size() != 9) return Invalid("it is cut off");
  // Before any number is read: damage is told from what another version writes.
  if (Check(text.substr(0, text.size() - parts.back().size() - 1)) != parts.back()) {
    return Invalid("its check value does not fit, so it is damaged");
  }
  Cursor cursor{.definition = parts[1]};
  bool known = false;
  // First come has no cursors: acknowledgements say where it is.
  for (const Mode mode : {Mode::kExact, Mode::kRounds}) {
    if (parts[2] != std::string(ModeName(mode))) continue;
    cursor.mode = mode;
    known = true;
  }
  if (!known || !ReadNumber(parts[3], cursor.elements) || !ReadNumber(parts[4], cursor.round) ||
      !ReadNumber(parts[5], cursor.place) || !ReadNumber(parts[6], cursor.next)) {
    return Invalid("it holds what no version of ours writes");
  }
  for (const absl::string_view part : absl::StrSplit(parts[7], ',', absl::SkipEmpty())) {
    SegmentRest rest;
    const std::pair<absl::string_view, absl::string_view> range =
        absl::StrSplit(part, absl::MaxSplits('-', 1));
    const std::pair<absl::string_view, absl::string_view> from =
        absl::StrSplit(part, absl::MaxSplits(':', 1));
    int64_t last = 0;
    bool good = true;
    // Only whole segments are in a run, so it says no element.
    if (!range.second.empty()) {
      good = ReadNumber(range.first, rest.segment) && ReadNumber(range.second, last) &&
             last >= rest.segment && last - rest.segment < kRestsMax;
    } else {
      good = ReadNumber(from.first, rest.segment) &&
             (from.second.empty() || ReadNumber(from.second, rest.from));
      last = rest.segment;
    }
    if (!good) return Invalid("it holds what no version of ours writes");
    for (; rest.segment <= last; ++rest.segment) {
      // A run is short in the text and long here, so the list is bounded, and not the text alone.
      if (static_cast<int64_t>(cursor.rests.size()) >= kRestsMax) {
        return Invalid(absl::StrCat("it has more than ", kRestsMax, " rests (kRestsMax)"));
      }
      // Else a segment would be read twice.
      if (!cursor.rests.empty() && rest.segment <= cursor.rests.back().segment) {
        return Invalid("its rests do not rise, so it was altered");
      }
      cursor.rests.push_back(rest);
    }
  }
  // From `next` on all segments are given anyway.
  if (!cursor.rests.empty() && cursor.rests.back().segment >= cursor.next) {
    return Invalid("it has a rest behind its end, so it was altered");
  }
  // One place has one text: cursors of one place can be compared as texts.
  if (EncodeCursor(cursor) != text) return Invalid("it is not as any version of ours writes it");
  return cursor;
}

}  // namespace lockstep::dispatch
