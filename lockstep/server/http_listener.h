// What browsers, Prometheus and scripts see of a server: /healthz, /readyz, /metrics and
// /v1/{status,jobs,members,barriers,events,why}.json. Reads only.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lockstep/platform/link/channel.h"
#include "lockstep/platform/link/rights.h"
#include "lockstep/platform/runtime/address.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/platform/runtime/memory_account.h"
#include "lockstep/platform/runtime/peer_owner.h"
#include "lockstep/server/server_view.h"
#include "lockstep/wire/native/job_messages.h"

namespace lockstep::server {

// What the listener asks for, on the loop.
struct HttpSource {
  using Release = absl::AnyInvocable<void(bool durable)>;

  using Viewed = absl::AnyInvocable<void(absl::StatusOr<ServerView>)>;
  // Of this job; of all when it is empty. Calls back on the loop, perhaps many turns later.
  std::function<void(const std::string& job, Viewed)> view;
  // Why the server should be sent no work now; empty: it is ready.
  std::function<std::vector<std::string>()> not_ready;
  std::function<absl::StatusOr<wire::native::WatchEventsReply>(const wire::native::WatchEvents&)>
      events;
  // Calls back on the loop when all that happened so far is durable, or can never be.
  std::function<void(Release)> when_durable;
};

// Who asks for a page, as far as the connection tells.
struct HttpCaller {
  std::string_view token;  // of the request; empty: none
  bool secure = false;     // by TLS
  bool certified = false;  // with a certificate of an authority that the server believes
  bool local = false;      // from this host, by a user who may call here
  // As runtime::SecureLayer::peer_uris.
  std::vector<std::string> uris = {};
};

// How callers connect, and what they may see. The functions are called on the listener's thread.
struct HttpAccess {
  // For connections that begin with TLS; null: there is none.
  link::Channel::AcceptLayer accept_secure = nullptr;
  // Others are answered, too; otherwise they are told that they need TLS.
  bool allows_plain = true;
  // UNAUTHENTICATED, with its reason: nothing but whether the server lives and is ready. Null:
  // everybody may see everything.
  std::function<absl::StatusOr<link::Rights>(const HttpCaller&)> admit = nullptr;
};

// /v1 shows only what is durable, as every answer of the server does. /metrics and the two health
// pages tell how the server itself is, also while the disk hangs, so they do not wait for it.
//
// Threads: two of its own. One runs a loop with the connections, so that /healthz is answered
// however slow others are; one turns the server's state into text. The server's loop only copies
// its state. Bounds: `kConnectionsMax`, beyond which one is closed of the host that has most, first
// one that has its answer, then one that still sends its request; `kViewsMax` copies of the state
// at a time for pages that wait for the disk, and for those that do not; those of HttpConnection
// for each request, and of HttpAnswerMemory for what all answers hold, beyond which one is 503; and
// a server's loop that does not answer within `patience` is answered for with 503.
class HttpListener {
 public:
  static constexpr size_t kConnectionsMax = 64;  // `http_connections_max`
  static constexpr size_t kViewsMax = 2;

  struct Options {
    runtime::Address listen;
    // What browsers may call this host, besides numbers and "localhost".
    std::vector<std::string> names;
    runtime::AllowedPeers allowed = {};
    absl::Duration patience = absl::Seconds(5);
    // What answers hold until they are read is in this account, which outlives the listener.
    runtime::MemoryAccount* memory = nullptr;
    HttpAccess access = {};
  };

  // Binds and serves at once; the loop may begin later. The loop outlives the listener, and what
  // `source` captured as well.
  static absl::StatusOr<std::unique_ptr<HttpListener>> Listen(runtime::Loop& loop, Options options,
                                                              HttpSource source);
  // Ends all connections, whatever they are doing; waits for nobody but the page that is being
  // written.
  ~HttpListener();

  // With the port that was chosen for port 0.
  std::string address() const;
  // Whether it answers nobody without TLS.
  bool secure() const;

 private:
  class Impl;
  explicit HttpListener(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::server
