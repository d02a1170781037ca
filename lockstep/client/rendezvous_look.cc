#include "lockstep/client/rendezvous_look.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/rendezvous_keys.h"

namespace lockstep::client {
namespace {

using wire::native::RendezvousKey;
using wire::native::RendezvousReport;

std::string NameOf(const std::vector<std::string>& names, MemberIndex member) {
  const auto index = static_cast<size_t>(member.value());
  return index < names.size() ? names[index] : absl::StrCat("member ", member.value());
}

}  // namespace

RendezvousLook::RendezvousLook(Keys keys, int32_t member, MakeReport make_report)
    : watch_(keys.Watch(
          std::string(wire::native::kRendezvousLook),
          [keys, member, make_report = std::move(make_report)](absl::StatusOr<KeyChanges> changes) {
            if (!changes.ok() || changes->changes.empty()) return;
            const auto& look = changes->changes.back().value;
            if (!look.has_value()) return;
            RendezvousReport report = make_report();
            report.look = *look;
            keys.SetAsync(absl::StrCat(std::string(wire::native::kRendezvousReports), "/", member),
                          wire::native::Encode(report), {.with_member = true},
                          [](const absl::StatusOr<int64_t>&) {});
          })) {}

RendezvousLook::~RendezvousLook() { watch_->Stop(); }

void AddView(const rendezvous::View& view, const std::vector<std::string>& names,
             RendezvousReport& report) {
  const std::pair<const std::vector<rendezvous::KeyRow>*, std::vector<RendezvousKey>*> kinds[] = {
      {&view.waiting, &report.waiting},
      {&view.unclaimed, &report.unclaimed},
      {&view.held, &report.held},
      {&view.wanted, &report.wanted}};
  for (const auto& [rows, told] : kinds) {
    for (const rendezvous::KeyRow& row : *rows) {
      told->push_back({.step = row.step.value(),
                       .peer = row.peer.value(),
                       .peer_name = NameOf(names, row.peer),
                       .name = row.name,
                       .count = static_cast<int64_t>(row.count),
                       .bytes = row.bytes,
                       .age_us = absl::ToInt64Microseconds(row.age)});
    }
  }
  for (const rendezvous::PeerRow& row : view.peers) {
    report.peers.push_back({.peer = row.peer.value(),
                            .name = NameOf(names, row.peer),
                            .why = row.lost,
                            .held = static_cast<int64_t>(row.held),
                            .lent = static_cast<int64_t>(row.lent),
                            .lent_bytes = row.lent_bytes,
                            .lost = !row.lost.empty()});
  }
  report.steps = static_cast<int64_t>(view.steps);
  report.waits = static_cast<int64_t>(view.waits);
  report.held_values = static_cast<int64_t>(view.held_values);
  report.held_bytes = view.held_bytes;
}

}  // namespace lockstep::client
