#include "lockstep/rendezvous/transport/bulk_fetcher.h"

#include <utility>

#include "lockstep/base/check.h"

namespace lockstep::transport {

using rendezvous::ErrorPtr;
using rendezvous::MakeError;
using rendezvous::OpId;
using rendezvous::Reason;

BulkSource::Events BulkFetcher::SourceEvents(MemberIndex member) {
  const std::weak_ptr<BulkFetcher> weak = weak_from_this();
  return {
      .find_card = [find = events_.find_card,
                    member](FoundCard found) { find(member, std::move(found)); },
      .hello = [hello = events_.hello, member](const Card& card) { return hello(member, card); },
      .finished =
          [weak](OpId op, ErrorPtr error) {
            if (const auto self = weak.lock()) self->Finish(op, std::move(error));
          },
      .reads_memory =
          [weak, member](std::string why_not) {
            const auto self = weak.lock();
            if (self) self->events_.reads_memory(member, std::move(why_not));
          }};
}

void BulkFetcher::Start(const Fetch& fetch) {
  if (closed_) {
    return events_.done(fetch.op, MakeError(absl::StatusCode::kCancelled, Reason::kRendezvousClosed,
                                            "the rendezvous was closed"));
  }
  LOCKSTEP_DCHECK(!fetches_.contains(fetch.op));
  fetches_[fetch.op] = fetch.from;
  std::shared_ptr<BulkSource>& source = sources_[fetch.from];
  if (source == nullptr) {
    source = BulkSource::Make(loop_, options_, fetch.from, SourceEvents(fetch.from));
  }
  source->Add(fetch);
}

void BulkFetcher::Stop(OpId op) {
  const auto found = fetches_.find(op);
  if (found == fetches_.end()) return;
  if (!sources_[found->second]->Remove(op)) return;
  Finish(op, MakeError(absl::StatusCode::kCancelled, Reason::kCancelled, "stopped"));
}

void BulkFetcher::Forget(MemberIndex member) {
  const auto node = sources_.extract(member);
  if (!node.empty()) node.mapped()->Close();
}

void BulkFetcher::Finish(OpId op, ErrorPtr error) {
  // Unless `Close` has ended it meanwhile.
  if (fetches_.erase(op) > 0) events_.done(op, std::move(error));
}

void BulkFetcher::Close() {
  if (std::exchange(closed_, true)) return;
  for (auto& [member, source] : sources_) source->Close();
  sources_.clear();
  for (const auto& [op, member] : std::exchange(fetches_, {})) {
    events_.done(op, MakeError(absl::StatusCode::kCancelled, Reason::kRendezvousClosed,
                               "the rendezvous was closed"));
  }
}

}  // namespace lockstep::transport
