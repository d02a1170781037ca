// Brings the bytes of long values from other members.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "lockstep/base/ids.h"
#include "lockstep/rendezvous/error.h"
#include "lockstep/rendezvous/step_table.h"
#include "lockstep/rendezvous/transport/bulk_loop.h"
#include "lockstep/rendezvous/transport/bulk_source.h"
#include "lockstep/rendezvous/transport/card.h"

namespace lockstep::transport {

// From each member over one connection, which is made when it is needed, and made again when it
// breaks (BulkSource).
//
// Threads: confined to the bulk loop. Bounds: those of a source for each member; the fetches, which
// the owner bounds.
class BulkFetcher : public std::enable_shared_from_this<BulkFetcher> {
 public:
  using FoundCard = BulkConnection::FoundCard;
  using Options = BulkFetchOptions;
  using Fetch = BulkFetch;
  struct Events {
    // Calls back on any thread.
    std::function<void(MemberIndex, FoundCard)> find_card;
    // The first message to a member with that card.
    std::function<std::string(MemberIndex, const Card&)> hello;
    // Nothing is written any more; null: all of it has come. Once for each fetch.
    std::function<void(rendezvous::OpId, rendezvous::ErrorPtr)> done;
    // Whether the member's memory is read: empty, or why it is not. Again when that changes.
    std::function<void(MemberIndex, std::string why_not)> reads_memory;
  };

  BulkFetcher(BulkLoop& loop, Options options, Events events)
      : loop_(loop),
        options_(std::make_shared<const Options>(std::move(options))),
        events_(std::move(events)) {}

  void Start(const Fetch& fetch);
  // Ends it with an error, unless it has ended.
  void Stop(rendezvous::OpId op);
  // Another process is that member now; nothing is fetched from it at the moment.
  void Forget(MemberIndex member);
  // Ends all of them.
  void Close();

 private:
  BulkSource::Events SourceEvents(MemberIndex member);
  void Finish(rendezvous::OpId op, rendezvous::ErrorPtr error);

  BulkLoop& loop_;
  const std::shared_ptr<const Options> options_;
  const Events events_;
  bool closed_ = false;
  std::map<MemberIndex, std::shared_ptr<BulkSource>> sources_;
  std::map<rendezvous::OpId, MemberIndex> fetches_;
};

}  // namespace lockstep::transport
