#include "lockstep/coord/kept_answers.h"

#include <memory>
#include <utility>
#include <variant>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"

namespace lockstep::coord {

std::optional<record::AnswerKept> KeptAnswerOf(const Caller& caller, const Answer& answer) {
  LOCKSTEP_DCHECK(caller.number != 0);  // else no client could ask again
  record::AnswerKept kept{.session = caller.numbered_in(), .number = caller.number};
  if (const auto* written = std::get_if<KeyWritten>(&answer)) {
    kept.revision = written->revision;
  } else if (const auto* swapped = std::get_if<KeySwapped>(&answer)) {
    // A condition that did not hold changed nothing; asked again, it is judged again.
    if (!swapped->swapped || !swapped->entry) return std::nullopt;
    kept.swapped = true;
    kept.key = swapped->entry->key;
    kept.revision = swapped->entry->revision;
  } else if (const auto* deleted = std::get_if<KeysDeleted>(&answer)) {
    kept.deleted = deleted->deleted;
    kept.revision = deleted->revision;
  } else if (const auto* read = std::get_if<KeyRead>(&answer)) {
    int64_t number = 0;
    // Only increments and maxima are kept as reads, and both leave a number.
    LOCKSTEP_CHECK(absl::SimpleAtoi(*read->entry.value, &number));
    kept.result = number;
    kept.key = read->entry.key;
    kept.revision = read->entry.revision;
  }
  return kept;
}

bool MayBeStock(const record::AnswerKept& kept) {
  return !kept.swapped && !kept.deleted && (kept.result || !kept.revision);
}

Answer AnswerAgain(const record::AnswerKept& kept, const std::string* value) {
  const int64_t revision = kept.revision.value_or(0);
  // A swap first: its record has a revision, too.
  if (kept.swapped) {
    auto written = std::make_shared<const std::string>(value != nullptr ? *value : "");
    return KeySwapped{.swapped = true, .entry = KeyValue{kept.key, std::move(written), revision}};
  }
  if (kept.result) {
    return KeyRead{
        {kept.key, std::make_shared<const std::string>(absl::StrCat(*kept.result)), revision}};
  }
  if (kept.deleted) return KeysDeleted{.deleted = *kept.deleted, .revision = revision};
  if (kept.revision) return KeyWritten{.revision = revision};
  return std::monostate();
}

}  // namespace lockstep::coord
