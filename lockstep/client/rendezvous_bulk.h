// Long values of one member that go over the network.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "asio/io_context.hpp"
#include "lockstep/rendezvous/effects.h"
#include "lockstep/rendezvous/transport/arena.h"
#include "lockstep/rendezvous/transport/bulk_fetcher.h"
#include "lockstep/rendezvous/transport/bulk_server.h"
#include "lockstep/rendezvous/transport/connector.h"
#include "lockstep/rendezvous/transport/door.h"

namespace lockstep::client {

// A fetcher and a server on the bulk loop of the process, which gets its thread when the first of
// them is needed. What comes goes where its receiver wants it, else into a block of the arena, else
// into memory of its own.
//
// Threads: `Listen` and `StopListening` on the loop, the rest on any thread; calls its owner on the
// bulk loop. Ownership: `Close` before letting go.
class RendezvousBulk : public std::enable_shared_from_this<RendezvousBulk> {
 public:
  struct Events {
    std::function<void(MemberIndex, transport::BulkFetcher::FoundCard)> find_card;
    std::function<std::optional<rendezvous::Value>(MemberIndex, rendezvous::LeaseId)> lent;
    // `memory`: where the bytes are; null when that was said before.
    std::function<void(rendezvous::OpId, rendezvous::MemoryPtr memory, rendezvous::ErrorPtr)> done;
    // As of BulkFetcher.
    std::function<void(MemberIndex, std::string why_not)> reads_memory;
  };

  RendezvousBulk(transport::Arena& arena, Events events)
      : arena_(arena), events_(std::move(events)) {}

  // Where others fetch from us.
  absl::StatusOr<std::string> Listen(asio::io_context& io, transport::Door::Options door);
  // Before anything else but `Listen`. Who we are to others.
  void Begin(const transport::Card& card, const transport::Connector::Options& options);

  // `into`: where the bytes go; stays until `done`. Null: to memory that is made for them.
  void Fetch(const rendezvous::Fetch& fetch, std::byte* into);
  // `done` follows with an error, unless the fetch has ended.
  void Stop(rendezvous::OpId op);
  // It is another process now. What was fetched from it was stopped before.
  void Forget(MemberIndex member);
  // On the loop.
  void StopListening();
  // Returns when nothing is written any more.
  void Close();
  // Whether that is where we are, such as in what gives a value's memory back.
  bool InLoop() const;

 private:
  void Accepted(transport::ProvenConnection proven);
  void Start(const rendezvous::Fetch& fetch, std::byte* into);
  void Done(rendezvous::OpId op, rendezvous::ErrorPtr error);
  // Runs it on the bulk loop.
  void Post(absl::AnyInvocable<void()> function);
  void MakeEnds();

  transport::Arena& arena_;
  const Events events_;
  transport::Card card_;
  transport::Connector::Options options_;
  std::shared_ptr<transport::Door> door_;  // the loop's

  // The bulk loop's.
  std::shared_ptr<transport::BulkFetcher> fetcher_;
  std::shared_ptr<transport::BulkServer> server_;
  std::map<rendezvous::OpId, rendezvous::MemoryPtr> made_;
  bool closed_ = false;

  std::atomic<bool> used_ = false;
};

}  // namespace lockstep::client
