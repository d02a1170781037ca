#include "lockstep/launch/node_group_link.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "asio/ip/tcp.hpp"
#include "lockstep/base/check.h"
#include "lockstep/platform/runtime/address.h"
#include "lockstep/platform/runtime/dial.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/node_group_messages.h"

namespace lockstep::launch {
namespace {

using wire::native::NodeGroupStep;
using wire::native::NodeGroupWord;
using wire::native::PollNodeGroup;
using wire::native::PollNodeGroupReply;
using wire::native::TellNodeGroup;

constexpr absl::Duration kDialTimeout = absl::Seconds(5);
// Between attempts to connect: doubled from the first to the last after each failure.
constexpr absl::Duration kBackoffFirst = absl::Milliseconds(20);
constexpr absl::Duration kBackoffLast = absl::Seconds(1);
// A server that does not answer does not keep us from ending.
constexpr absl::Duration kLeaveTimeout = absl::Seconds(1);
static_assert(kBackoffFirst < kBackoffLast);
static_assert(kBackoffLast <= kLeaveTimeout);  // who leaves tries once more

// The link will be made again; everything else is the server's word.
bool IsOfTheLink(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsCancelled(status) || absl::IsInternal(status);
}

}  // namespace

NodeGroupLink::NodeGroupLink(runtime::Loop& loop, std::string address, PollNodeGroup self,
                             Callbacks callbacks)
    : loop_(loop),
      address_(std::move(address)),
      self_(std::move(self)),
      callbacks_(std::move(callbacks)),
      redial_{runtime::Timer(loop), kBackoffFirst},
      leaving_{runtime::Timer(loop), nullptr} {}

NodeGroupLink::~NodeGroupLink() {
  if (connection_.link != nullptr) connection_.link->Abandon();
}

void NodeGroupLink::Start() { Dial(); }

void NodeGroupLink::Dial() {
  if (redial_.servers == nullptr) {
    auto servers = link::Servers::Read(address_);
    if (!servers.ok()) return LinkClosed(servers.status());
    redial_.servers = *std::move(servers);
  }
  connection_.link =
      link::ClientLink::Dial(loop_.io(), redial_.servers, kDialTimeout, "lockstep run", {},
                             {.ready =
                                  [this](const auto&) {
                                    connection_.ready = true;
                                    NameAddresses();
                                    redial_.backoff = kBackoffFirst;
                                    if (std::exchange(troubled_, false)) {
                                      callbacks_.say("the server answers again");
                                      callbacks_.lost("");
                                    }
                                    SendWord();
                                    Poll();
                                  },
                              .closed = [this](const absl::Status& why) { LinkClosed(why); }});
}

void NodeGroupLink::NameAddresses() {
  self_.addresses.clear();
  for (const uint16_t port : ports_) {
    self_.addresses.push_back(
        runtime::ToString(asio::ip::tcp::endpoint(connection_.link->local_address(), port)));
  }
}

void NodeGroupLink::LinkClosed(const absl::Status& why) {
  connection_ = {};
  if (ended_ && words_.empty()) return;
  if (!ended_ && !std::exchange(troubled_, true)) {
    callbacks_.say(absl::StrCat("the other nodes are not heard of: ", std::string(why.message()),
                                "; trying again"));
    callbacks_.lost(std::string(why.message()));
  }
  redial_.timer.Arm(runtime::MonotonicNow() + redial_.backoff, [this] { Dial(); });
  redial_.backoff = std::min(2 * redial_.backoff, kBackoffLast);
}

void NodeGroupLink::Poll() {
  if (!connection_.ready || connection_.polling || ended_) return;
  connection_.polling = true;
  connection_.link->Call(link::KindOf<PollNodeGroup>::kKind, wire::native::Encode(self_),
                         [this](absl::StatusOr<std::string> answer) { Polled(std::move(answer)); });
}

void NodeGroupLink::Polled(absl::StatusOr<std::string> answer) {
  connection_.polling = false;
  if (connection_.link == nullptr || connection_.link->closed())
    return;  // not an answer; `LinkClosed` follows
  if (ended_) return;
  if (!answer.ok()) {
    if (IsOfTheLink(answer.status())) {
      // The server goes away; its link will, too.
      redial_.timer.Arm(runtime::MonotonicNow() + redial_.backoff, [this] { Poll(); });
      return;
    }
    ended_ = true;
    callbacks_.refused(answer.status());
    return;
  }
  const auto reply = wire::native::Decode<PollNodeGroupReply>(*answer);
  if (!reply.ok()) {
    ended_ = true;
    callbacks_.refused(reply.status());
    return;
  }
  Take(*reply);
  Poll();
}

void NodeGroupLink::Take(const PollNodeGroupReply& reply) {
  if (reply.step == NodeGroupStep::kWait || reply.step == NodeGroupStep::kUnspecified) {
    if (!reply.why.empty() && reply.why != waits_for_) callbacks_.say(reply.why);
    waits_for_ = reply.why;
    return;
  }
  if (reply.number <= self_.seen) return;
  self_.seen = reply.number;
  waits_for_.clear();
  if (reply.step == NodeGroupStep::kBegin) {
    self_.attempt = reply.attempt;
    self_.attempt_rank = reply.node_rank;
    self_.attempt_nodes = reply.nodes;
    self_.over.reset();
  }
  if (reply.step == NodeGroupStep::kEnded) ended_ = true;
  callbacks_.told(reply);
}

void NodeGroupLink::TellFailed(std::string text, int32_t exit_code, std::string failure) {
  Tell({.word = NodeGroupWord::kFailed,
        .text = std::move(text),
        .exit_code = exit_code,
        .failure = std::move(failure)});
}

void NodeGroupLink::TellOver(int32_t exit_code, bool again, std::string text) {
  self_.over = exit_code;
  Tell({.word = NodeGroupWord::kOver,
        .text = std::move(text),
        .exit_code = exit_code,
        .again = again});
}

void NodeGroupLink::Tell(TellNodeGroup word) {
  word.job = self_.job;
  word.node = self_.node;
  word.attempt = self_.attempt;
  words_.push_back(std::move(word));
  SendWord();
}

void NodeGroupLink::SendWord() {
  if (!connection_.ready || connection_.sending || words_.empty()) return;
  connection_.sending = true;
  connection_.link->Call(link::KindOf<TellNodeGroup>::kKind, wire::native::Encode(words_.front()),
                         [this](const absl::StatusOr<std::string>& answer) {
                           if (connection_.link == nullptr || connection_.link->closed()) return;
                           connection_.sending = false;
                           if (!answer.ok() && IsOfTheLink(answer.status())) return;
                           LOCKSTEP_DCHECK(!words_.empty());  // the first is on its way
                           words_.pop_front();
                           if (words_.empty() && leaving_.done) return Left();
                           SendWord();
                         });
}

void NodeGroupLink::Leave(absl::AnyInvocable<void()> done) {
  leaving_.done = std::move(done);
  const bool known = !ended_ && (self_.seen > 0 || connection_.ready);
  ended_ = true;
  if (!known) return Left();
  leaving_.timer.Arm(runtime::MonotonicNow() + kLeaveTimeout, [this] { Left(); });
  Tell({.word = NodeGroupWord::kLeaves});
}

void NodeGroupLink::Left() {
  leaving_.timer.Cancel();
  redial_.timer.Cancel();
  if (leaving_.done) std::exchange(leaving_.done, nullptr)();
}

}  // namespace lockstep::launch
