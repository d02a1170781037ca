#include "lockstep/client/rendezvous_cards.h"

#include "absl/strings/str_cat.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/error_reply.h"
#include "lockstep/wire/native/rendezvous_keys.h"

namespace lockstep::client {
namespace {

namespace native = wire::native;

std::string KeyOf(MemberIndex member) {
  return absl::StrCat(std::string(native::kRendezvousCards), "/", member.value());
}

}  // namespace

absl::Status RendezvousCards::Publish(const transport::Card& card, absl::Duration timeout,
                                      const Interrupted& interrupted) {
  const auto published = keys_.Set(
      KeyOf(self_), native::Encode(card),
      {.overwrite = false, .with_member = true, .timeout = timeout, .interrupted = interrupted});
  if (absl::IsAlreadyExists(published.status())) {
    return native::WithReason(
        absl::FailedPreconditionError(
            "this member has an open rendezvous already: use that, or close it first"),
        "rendezvous_open");
  }
  published_ = published.ok();
  return published.status();
}

void RendezvousCards::Withdraw() {
  if (published_) keys_.DeleteAsync(KeyOf(self_), {}, [](const absl::StatusOr<int64_t>&) {});
}

void RendezvousCards::Find(MemberIndex member, Found found) const {
  // It may never come. The loop is the process's, and stays.
  keys_.WaitAsync(
      KeyOf(member), {}, [&loop = loop_, found = std::move(found)](absl::StatusOr<KeyEntry> entry) {
        absl::StatusOr<transport::Card> card =
            entry.ok() ? native::Decode<transport::Card>(entry->value) : entry.status();
        loop.Post([found, card = std::move(card)]() mutable { found(std::move(card)); });
      });
}

}  // namespace lockstep::client
