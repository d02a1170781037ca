// The side of the link that accepts.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lockstep/base/ids.h"
#include "lockstep/platform/link/channel.h"
#include "lockstep/platform/link/frame.h"
#include "lockstep/platform/link/kinds.h"
#include "lockstep/platform/link/options.h"
#include "lockstep/platform/link/rights.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/platform/runtime/memory_account.h"
#include "lockstep/platform/runtime/peer_owner.h"

namespace lockstep::link {

// One link of a server; never used again by it.
using LinkId = Id<struct LinkIdTag, uint64_t>;

// What a client asks. The views hold while the handler runs.
struct Request {
  LinkId link;
  uint64_t id = 0;  // within the link
  RequestKind kind = 0;
  std::string payload;    // the encoded message that `kind` names
  std::string_view who;   // as the client calls itself in its hello
  std::string_view peer;  // HOST:PORT it calls from
  Rights rights = {};     // of the caller; that it may ask this was checked
};

// Whether a server leads those of its group.
struct Leadership {
  bool leads = true;
  uint64_t epoch = 0;       // of the leadership; 0: the server is alone
  std::string leader = "";  // HOST:PORT of the one that leads; empty: not known
};

// What a client may, or why it is sent away.
using Verdict = absl::StatusOr<Rights>;

// An encoded answer (or ErrorReply).
struct Payload {
  bool failed = false;
  std::string bytes;
  std::shared_ptr<const std::string>
      shared;  // when not null: instead of `bytes`, sent to others too
  // Requests of the same link that this answers as well.
  std::vector<uint64_t> also = {};
};

// The duty to answer one request, exactly once. Loop-confined; may be kept for as long as the
// answer takes. After its link has gone it swallows the answer. Destroyed without an answer it
// answers INTERNAL, so that no client waits for ever.
class Responder {
 public:
  // What answers go through: the server, while it lives.
  class Sink {
   public:
    virtual ~Sink() = default;
    // Ignored when that link has gone.
    virtual void Answer(LinkId link, RequestKind kind, uint64_t id, Payload payload) = 0;
  };

  Responder(std::weak_ptr<Sink> sink, LinkId link, RequestKind kind, uint64_t id)
      : sink_(std::move(sink)), link_(link), kind_(kind), id_(id), owed_(true) {}
  Responder(Responder&& other) noexcept
      : sink_(std::move(other.sink_)),
        link_(other.link_),
        kind_(other.kind_),
        id_(other.id_),
        owed_(std::exchange(other.owed_, false)) {}
  Responder& operator=(Responder&&) = delete;
  ~Responder();

  // An encoded message.
  void Answer(std::string payload) { Send({.failed = false, .bytes = std::move(payload)}); }
  // `status` must not be OK; give it a reason with wire::native::WithReason.
  void Fail(const absl::Status& status);
  // Either of these. Only once: the duty is done.
  void Send(Payload payload);
  // The same, which does the duty of `others` as well: requests of the same link, whose client
  // takes one answer to several.
  void SendForAll(Payload payload, std::vector<Responder> others);

  LinkId link() const { return link_; }
  RequestKind kind() const { return kind_; }
  uint64_t id() const { return id_; }

 private:
  std::weak_ptr<Sink> sink_;
  LinkId link_;
  RequestKind kind_;
  uint64_t id_;
  bool owed_;
};

// What a server is told, on the loop.
struct ServerEvents {
  std::function<void(Request&&, Responder&&)> request;
  // A request that has no answer yet is not wanted any more: it is to be answered soon.
  std::function<void(LinkId, uint64_t id)> cancelled = nullptr;
  // The client has all answers of its session up to this one.
  std::function<void(LinkId, uint64_t through)> answered = nullptr;
  // A frame of a tunnel that a request of this link opened, or of none. Null: there are no tunnels,
  // and a frame of one breaks the link.
  std::function<void(LinkId, Message)> tunnel = nullptr;
  // A link that has sent requests is gone, and its answers are swallowed from here on.
  // `by_peer`: the other end closed it, as the kernel does when a process dies.
  std::function<void(LinkId, bool by_peer)> ended = nullptr;
  // Whether a link that takes one of the last places goes on with something that is here already.
  // Asked with its first request; null: nobody does.
  std::function<bool(const Request&)> resumes = nullptr;
  // Whether somebody is here by this link, such as a session: it keeps its place however long it
  // asks for nothing. Null: nobody is.
  std::function<bool(LinkId)> holds = nullptr;
  // Whether this server leads, asked of each client that may stay, before its welcome. One that
  // does not lead refuses the link, and names the leader (`not_leader`); links that were welcomed
  // before are for the owner to close. Null: it leads, alone.
  std::function<Leadership()> leadership = nullptr;
};

// Listens, accepts links and hands their requests to its owner on the loop.
//
// Threads: loop-confined: make, use and destroy it on the loop's thread (or while the loop does not
// run). Ownership: the loop must outlive it. What the events captured is gone after the
// destructor. Bounds: `connections_max` and `connections_per_host_max` (one more is refused with a
// word why), `connections_reserved`, `greetings_max`, `refusals_max`, LinkOptions; `memory`. When
// the process has no descriptor left, whoever has said nothing for longest goes; when all have, the
// newest is refused.
class Server {
 public:
  using Handler = std::function<void(Request&&, Responder&&)>;

  struct Options {
    std::string listen = "127.0.0.1:7070";  // HOST:PORT; port 0 lets the system choose
    size_t connections_max = 20'000;
    // Of those, from one address; 0: as many as there may be.
    size_t connections_per_host_max = 0;
    // Of those, the last ones, for who goes on with a session (ServerEvents::resumes).
    size_t connections_reserved = 0;
    // A link that has asked for nothing for this long after its welcome gives its place to one that
    // comes when all are taken.
    absl::Duration first_request_timeout = absl::Seconds(10);
    // So does one that has asked, but waits for no answer, holds nothing (ServerEvents::holds) and
    // has been so for this long. A link with one of the last places has `hello_timeout` to ask.
    absl::Duration idle_timeout = absl::Seconds(60);
    // Connections that have said no hello yet; one more takes the place of the oldest of the host
    // that has most of them.
    size_t greetings_max = 512;
    // Connections that are refused for want of a place are told so once they have said hello, which
    // is when TLS stands: so many at a time. More are closed without a word.
    size_t refusals_max = 64;
    // What links hold is in this account, which outlives the loop: requests and answers that there
    // is no room for are answered with `memory_max`. Null: in none.
    runtime::MemoryAccount* memory = nullptr;
    // Whose connections are taken at an address of the loopback interface.
    runtime::AllowedPeers allowed = {};
    // Makes the server's end of a TLS connection; null: it takes none.
    Channel::AcceptLayer accept_secure = nullptr;
    // Asked of every client that says hello: what it may. Its error says why it is sent away, and
    // has a reason. Nullopt: `Admit` says it later. Null: everybody may everything.
    std::function<std::optional<Verdict>(LinkId, const Greeting&)> admit = nullptr;
    // A link for which `Admit` is still to come is gone.
    std::function<void(LinkId)> left = [](LinkId) {};
    // Takes connections without TLS, too; others are refused with `tls_required`.
    bool allows_plain = true;
    uint64_t service_instance = 0;  // one life of this server; told in the welcome
    LinkOptions link = {};
    // Out of memory for a new connection: tried again after this.
    absl::Duration accept_retry = absl::Milliseconds(100);
    // Told in a sentence what an operator should know; null: not told.
    std::function<void(std::string)> log = nullptr;
  };

  // Binds and listens; an error names the address and what to do.
  static absl::StatusOr<std::unique_ptr<Server>> Listen(runtime::Loop& loop, Options options,
                                                        ServerEvents events);
  // For a server that needs to hear of requests only.
  static absl::StatusOr<std::unique_ptr<Server>> Listen(runtime::Loop& loop, Options options,
                                                        Handler handler) {
    return Listen(loop, std::move(options), ServerEvents{.request = std::move(handler)});
  }
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // The address that is bound, with the port that the system chose: "127.0.0.1:27001".
  const std::string& address() const;
  // Links that have been welcomed and are still there.
  size_t connections() const;

  // What Options::admit could not say at once. Until then the link greets: it counts as such and
  // ends at `hello_timeout`. Ignored when it has gone.
  void Admit(LinkId link, Verdict verdict);

  // A frame of a tunnel. Ignored when that link has gone.
  void Send(LinkId link, Message frame);

  // Says farewell to one link and closes it; `ended` follows.
  void Close(LinkId link, absl::Status why, std::string_view farewell_reason);

  // Accepts nothing more, says farewell to every link and closes it when that is written, at the
  // latest after a second; then calls `done` on the loop. Responders may still be used before that.
  void Drain(std::function<void()> done);

 private:
  class Impl;
  explicit Server(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace lockstep::link
