#include "lockstep/data/consumer/reading_start.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace lockstep::dispatch {

namespace {

std::variant<Cursor, ErrorPtr> DecodeOne(const std::string& text, const ConsumerOptions& options) {
  std::variant<Cursor, ErrorPtr> decoded = DecodeCursor(text);
  const auto* cursor = std::get_if<Cursor>(&decoded);
  if (cursor == nullptr) return decoded;
  if (cursor->mode == options.spec.mode && cursor->definition == options.definition) return decoded;
  return MakeError(
      absl::StatusCode::kFailedPrecondition, reason::kCursorMismatch,
      absl::StrCat("the cursor is of a reading of dataset ", cursor->definition, " in order ",
                   std::string(ModeName(cursor->mode)), ", and this is ", options.definition,
                   " in order ", std::string(ModeName(options.spec.mode))));
}

}  // namespace

std::variant<ReadingStart, ErrorPtr> DecodeStart(const ConsumerOptions& options) {
  ReadingStart start{.begin = {.mode = options.spec.mode}, .rejoin = std::nullopt};
  if (!options.spec.cursor.empty()) {
    std::variant<Cursor, ErrorPtr> begin = DecodeOne(options.spec.cursor, options);
    if (auto* why = std::get_if<ErrorPtr>(&begin)) return *why;
    start.begin = std::move(std::get<Cursor>(begin));
  }
  if (!options.rejoin.empty()) {
    std::variant<Cursor, ErrorPtr> rejoin = DecodeOne(options.rejoin, options);
    if (auto* why = std::get_if<ErrorPtr>(&rejoin)) return *why;
    start.rejoin = std::move(std::get<Cursor>(rejoin));
  }
  // In rounds, the dispatcher decides: it knows which rounds are kept.
  if (start.rejoin && options.spec.mode == Mode::kExact &&
      start.rejoin->elements < start.begin.elements) {
    return MakeError(
        absl::StatusCode::kFailedPrecondition, reason::kCursorMismatch,
        absl::StrCat("the cursor to go on from is at element ", start.rejoin->elements,
                     ", and the iteration begins behind it, at ", start.begin.elements));
  }
  return start;
}

}  // namespace lockstep::dispatch
