#include "lockstep/observe/rendezvous_text.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "lockstep/observe/text_parts.h"
#include "lockstep/wire/native/json.h"

namespace lockstep::observe {
namespace {

using wire::native::RendezvousKey;
using wire::native::RendezvousPeer;
using wire::native::RendezvousReport;

constexpr size_t kNameBytesShown = 80;

std::string BytesText(uint64_t bytes) {
  constexpr std::pair<uint64_t, const char*> kUnits[] = {
      {uint64_t{1} << 30, "GiB"}, {uint64_t{1} << 20, "MiB"}, {uint64_t{1} << 10, "KiB"}};
  for (const auto& [size, unit] : kUnits) {
    if (bytes >= size) {
      return absl::StrFormat("%.1f %s", static_cast<double>(bytes) / static_cast<double>(size),
                             unit);
    }
  }
  return absl::StrCat(bytes, " B");
}

// A key as one member told it.
struct Told {
  const RendezvousReport* by;
  const RendezvousKey* key;
};

std::vector<Told> OldestFirst(const RendezvousAnswers& answers,
                              std::vector<RendezvousKey> RendezvousReport::*kind) {
  std::vector<Told> all;
  for (const RendezvousReport& report : answers.reports) {
    for (const RendezvousKey& key : report.*kind) all.push_back({&report, &key});
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Told& a, const Told& b) { return a.key->age_us > b.key->age_us; });
  return all;
}

// `header`: of the columns for the two members, and the last one.
void AppendKeys(std::string& text, const std::string& title, const std::vector<Told>& told,
                const std::array<const char*, 3>& header, bool with_bytes) {
  if (told.empty()) return;
  absl::StrAppend(&text, title, "\n");
  Grid grid;
  grid.Add({header[0], header[1], "STEP", "KEY", "SINCE", header[2]});
  for (size_t i = 0; i < std::min(told.size(), kRowsMax); ++i) {
    const auto& [by, key] = told[i];
    grid.Add({CleanText(by->name), CleanText(key->peer_name), absl::StrCat(key->step),
              CleanText(key->name, kNameBytesShown), DurationText(key->age_us),
              with_bytes ? absl::StrCat(key->count, ", the first of ", BytesText(key->bytes))
                         : absl::StrCat(key->count)});
  }
  text += grid.Text();
  if (told.size() > kRowsMax) {
    absl::StrAppendFormat(&text, "  +%d more\n", told.size() - kRowsMax);
  }
}

// "3 shm, 1 tcp, 1 lost".
std::string PeersText(const RendezvousReport& report) {
  std::map<std::string, int> counts;
  for (const RendezvousPeer& peer : report.peers) {
    ++counts[peer.lost ? "lost" : peer.transport.empty() ? "not connected" : peer.transport];
  }
  return absl::StrJoin(counts, ", ", [](std::string* out, const auto& entry) {
    absl::StrAppend(out, entry.second, " ", CleanText(entry.first));
  });
}

void AppendPeerNotes(std::string& text, const RendezvousReport& report) {
  for (const RendezvousPeer& peer : report.peers) {
    if (peer.why.empty()) continue;
    absl::StrAppendFormat(&text, "  %s to %s: %s%s\n", CleanText(report.name), CleanText(peer.name),
                          peer.lost ? "lost: " : "", CleanText(peer.why));
  }
}

}  // namespace

std::string RendezvousTable(const RendezvousAnswers& answers) {
  std::string text =
      absl::StrFormat("job %s: %d members exchange tensors\n", CleanText(answers.job),
                      answers.reports.size() + answers.silent.size());
  if (!answers.silent.empty()) {
    const std::vector<std::string> named(
        answers.silent.begin(),
        answers.silent.begin() + static_cast<ptrdiff_t>(std::min(answers.silent.size(), kRowsMax)));
    absl::StrAppendFormat(&text, "no answer from %d: %s (stopped, cut off, or overloaded)\n",
                          answers.silent.size(), CleanText(absl::StrJoin(named, ", ")));
  }
  AppendKeys(text, "waiting for values", OldestFirst(answers, &RendezvousReport::waiting),
             {"MEMBER", "FROM", "RECEIVES"}, false);
  AppendKeys(text, "unreceived values", OldestFirst(answers, &RendezvousReport::unclaimed),
             {"MEMBER", "FROM", "VALUES"}, true);
  AppendKeys(text, "values waiting for their receivers",
             OldestFirst(answers, &RendezvousReport::held), {"MEMBER", "TO", "VALUES"}, true);
  Grid grid("");
  grid.Add({"MEMBER", "STEPS", "WAITS", "HELD", "BYTES", "ARENA", "PEERS"});
  for (const RendezvousReport& report : answers.reports) {
    grid.Add({CleanText(report.name), absl::StrCat(report.steps), absl::StrCat(report.waits),
              absl::StrCat(report.held_values), BytesText(report.held_bytes),
              absl::StrCat(BytesText(report.arena_used_bytes), " of ",
                           BytesText(report.arena_reserved_bytes)),
              PeersText(report)});
  }
  text += grid.Text();
  for (const RendezvousReport& report : answers.reports) AppendPeerNotes(text, report);
  return text;
}

std::string RendezvousJson(const RendezvousAnswers& answers) {
  const wire::native::Json json = {{"job", answers.job},
                                   {"members", wire::native::ToJson(answers.reports)},
                                   {"silent", wire::native::ToJson(answers.silent)}};
  return json.dump(2, ' ', false, wire::native::Json::error_handler_t::replace) + "\n";
}

}  // namespace lockstep::observe
