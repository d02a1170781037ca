#include "lockstep/platform/etcd/client.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "grpcpp/client_context.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/channel_arguments.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/platform/runtime/signals_blocked.h"
#include "proto/compat/etcd/etcd.grpc.pb.h"

namespace lockstep::etcd {
namespace {

namespace pb = ::etcdserverpb;

// A member that is gone is found at once, and one that is back is found soon.
constexpr int kReconnectFirstMs = 50;
constexpr int kReconnectLastMs = 1000;
// A connection that is being made may take so long.
constexpr absl::Duration kConnectTimeout = absl::Seconds(1);
// A connection whose other end does not answer for so long is given up.
constexpr int kPingEveryMs = 5000;
constexpr int kPingTimeoutMs = 2000;
// Of one try with one member, where others may be tried: no longer than this part of the time.
constexpr int kTriesInTime = 2;

// What etcd's codes mean to us, where it uses one for several things.
absl::StatusCode CodeOf(const grpc::Status& status) {
  const auto says = [&](const char* text) {
    return status.error_message().find(text) != std::string::npos;
  };
  switch (status.error_code()) {
    case grpc::StatusCode::RESOURCE_EXHAUSTED:  // else: no space, or too long an answer
      return says("too many requests") ? absl::StatusCode::kUnavailable
                                       : absl::StatusCode::kResourceExhausted;
    case grpc::StatusCode::FAILED_PRECONDITION:  // which is for "another server leads"
      return absl::StatusCode::kInvalidArgument;
    case grpc::StatusCode::INVALID_ARGUMENT:
      return says("revision of auth store is old") || says("user name is empty")
                 ? absl::StatusCode::kUnauthenticated
                 : absl::StatusCode::kInvalidArgument;
    default:
      return static_cast<absl::StatusCode>(status.error_code());
  }
}

absl::Status FromGrpc(const std::string& endpoint, const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  return absl::Status(CodeOf(status),
                      absl::StrCat("etcd at ", endpoint, ": ", status.error_message()));
}

std::shared_ptr<grpc::Channel> Connect(const std::string& endpoint, const Access& access) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kReconnectFirstMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS,
                   static_cast<int>(absl::ToInt64Milliseconds(kConnectTimeout)));
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kReconnectLastMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kPingEveryMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kPingTimeoutMs);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetMaxReceiveMessageSize(static_cast<int>(Client::kAnswerBytesMax));
  std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::InsecureChannelCredentials();
  if (!access.authority.empty()) {
    grpc::SslCredentialsOptions tls;
    tls.pem_root_certs = access.authority;
    tls.pem_cert_chain = access.certificate;
    tls.pem_private_key = access.key;
    credentials = grpc::SslCredentials(tls);
  }
  return grpc::CreateCustomChannel(endpoint, credentials, arguments);
}

std::chrono::system_clock::time_point DeadlineAfter(absl::Duration duration) {
  return std::chrono::system_clock::now() + absl::ToChronoNanoseconds(duration);
}

// Waits for a connection, but not while gRPC pauses after one that failed.
bool AwaitConnection(grpc::Channel& channel, absl::Duration timeout) {
  const auto deadline = DeadlineAfter(std::min(timeout, kConnectTimeout));
  while (true) {
    const grpc_connectivity_state state = channel.GetState(/*try_to_connect=*/true);
    if (state == GRPC_CHANNEL_READY) return true;
    if (state == GRPC_CHANNEL_TRANSIENT_FAILURE || state == GRPC_CHANNEL_SHUTDOWN) return false;
    if (!channel.WaitForStateChange(state, deadline)) return false;
  }
}

void Fill(const Range& from, pb::RangeRequest& to) {
  to.set_key(from.key);
  to.set_range_end(from.end);
  to.set_limit(from.limit);
  to.set_revision(from.revision);
}

struct FillOperation {
  pb::RequestOp& to;
  void operator()(const Range& range) const { Fill(range, *to.mutable_request_range()); }
  void operator()(const Put& put) const {
    to.mutable_request_put()->set_key(put.key);
    to.mutable_request_put()->set_value(put.value);
    to.mutable_request_put()->set_lease(put.lease);
  }
  void operator()(const Delete& keys) const {
    to.mutable_request_delete_range()->set_key(keys.key);
    to.mutable_request_delete_range()->set_range_end(keys.end);
  }
};

pb::TxnRequest ToMessage(const Transaction& transaction) {
  pb::TxnRequest request;
  for (const Compare& compare : transaction.compare) {
    pb::Compare& to = *request.add_compare();
    to.set_key(compare.key);
    if (compare.what == Compare::What::kCreated) {
      to.set_target(pb::Compare::CREATE);
      to.set_create_revision(compare.revision);
    } else {
      to.set_target(pb::Compare::MOD);
      to.set_mod_revision(compare.revision);
    }
  }
  for (const Operation& each : transaction.then) {
    std::visit(FillOperation{*request.add_success()}, each);
  }
  for (const Operation& each : transaction.otherwise) {
    std::visit(FillOperation{*request.add_failure()}, each);
  }
  return request;
}

KeyValue FromMessage(pb::KeyValue&& from) {
  return {.key = std::move(*from.mutable_key()),
          .value = std::move(*from.mutable_value()),
          .created = from.create_revision(),
          .modified = from.mod_revision(),
          .lease = from.lease()};
}

TransactionResult FromMessage(pb::TxnResponse&& from) {
  TransactionResult result{.succeeded = from.succeeded(), .revision = from.header().revision()};
  for (pb::ResponseOp& each : *from.mutable_responses()) {
    OperationResult& to = result.results.emplace_back();
    if (!each.has_response_range()) continue;
    pb::RangeResponse& range = *each.mutable_response_range();
    to.more = range.more();
    for (pb::KeyValue& found : *range.mutable_kvs()) {
      to.found.push_back(FromMessage(std::move(found)));
    }
  }
  return result;
}

}  // namespace

struct Client::Member {
  Member(std::string at, const Access& access)
      : endpoint(std::move(at)),
        channel(Connect(endpoint, access)),
        keys(pb::KV::NewStub(channel)),
        leases(pb::Lease::NewStub(channel)),
        watches(pb::Watch::NewStub(channel)),
        maintenance(pb::Maintenance::NewStub(channel)),
        users(pb::Auth::NewStub(channel)) {}

  const std::string endpoint;
  const std::shared_ptr<grpc::Channel> channel;
  const std::unique_ptr<pb::KV::Stub> keys;
  const std::unique_ptr<pb::Lease::Stub> leases;
  const std::unique_ptr<pb::Watch::Stub> watches;
  const std::unique_ptr<pb::Maintenance::Stub> maintenance;
  const std::unique_ptr<pb::Auth::Stub> users;
};

// gRPC makes connections only while somebody waits for something of its channel: this does, so that
// each member has one before it is needed, and has it again soon after it was lost.
class Client::Connector {
 public:
  explicit Connector(const std::vector<std::unique_ptr<Member>>& members) {
    for (const auto& member : members) Watch(*member->channel);
    const runtime::AllSignalsBlocked blocked;
    thread_ = std::thread([this] { Run(); });
  }
  ~Connector() {
    ending_ = true;
    thread_.join();
    changes_.Shutdown();
    void* tag;
    bool changed;
    while (changes_.Next(&tag, &changed)) {
    }
  }
  Connector(const Connector&) = delete;
  Connector& operator=(const Connector&) = delete;

 private:
  // How long the end may have to wait.
  static constexpr absl::Duration kLook = absl::Milliseconds(50);

  void Watch(grpc::Channel& channel) {
    channel.NotifyOnStateChange(channel.GetState(/*try_to_connect=*/true),
                                DeadlineAfter(kConnectTimeout), &changes_, &channel);
  }

  void Run() {
    while (!ending_) {
      void* tag;
      bool changed;
      const auto next = changes_.AsyncNext(&tag, &changed, DeadlineAfter(kLook));
      if (next == grpc::CompletionQueue::GOT_EVENT) Watch(*static_cast<grpc::Channel*>(tag));
    }
  }

  grpc::CompletionQueue changes_;
  std::atomic<bool> ending_ = false;
  std::thread thread_;
};

// The context of one call, which `Cancel` finds while it lasts.
class Client::Call {
 public:
  Call(Client& client, absl::Duration timeout, const std::string& token) : client_(client) {
    if (timeout != absl::InfiniteDuration()) {
      context_.set_deadline(DeadlineAfter(timeout));
    }
    if (!token.empty()) context_.AddMetadata("token", token);
    const MutexLock lock(client_.mutex_);
    if (client_.cancelled_) context_.TryCancel();
    client_.calls_.push_back(this);
  }
  ~Call() {
    const MutexLock lock(client_.mutex_);
    std::erase(client_.calls_, this);
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  grpc::ClientContext* context() { return &context_; }

 private:
  Client& client_;
  grpc::ClientContext context_;
};

Client::Client(const Location& location, const Access& access)
    : endpoints_(location.endpoints), user_(location.user), password_(access.password) {
  for (const std::string& endpoint : endpoints_) {
    members_.push_back(std::make_unique<Member>(endpoint, access));
  }
  connector_ = std::make_unique<Connector>(members_);
}

Client::~Client() = default;

void Client::Cancel() {
  const MutexLock lock(mutex_);
  cancelled_ = true;
  for (Call* const call : calls_) call->context()->TryCancel();
}

std::string Client::Token() {
  const MutexLock lock(mutex_);
  return token_;
}

absl::Status Client::Authenticate(Member& member, absl::Duration timeout) {
  pb::AuthenticateRequest request;
  request.set_name(user_);
  request.set_password(password_);
  pb::AuthenticateResponse response;
  Call call(*this, timeout, "");
  absl::Status status =
      FromGrpc(member.endpoint, member.users->Authenticate(call.context(), request, &response));
  if (!status.ok()) return status;
  const MutexLock lock(mutex_);
  token_ = response.token();
  return absl::OkStatus();
}

template <class Function>
absl::Status Client::OnMember(absl::Duration timeout, Function&& call) {
  const Time end = runtime::MonotonicNow() + timeout;
  absl::Status status;
  const size_t first = current_;
  for (size_t tried = 0; tried < members_.size(); ++tried) {
    const size_t at = (first + tried) % members_.size();
    Member& member = *members_[at];
    const absl::Duration left = end - runtime::MonotonicNow();
    if (left <= absl::ZeroDuration()) break;
    const bool others = tried + 1 < members_.size();
    const absl::Duration part = others ? left / kTriesInTime : left;
    const auto once = [&] {
      AwaitConnection(*member.channel, part);  // without one, the call says what is wrong
      Call context(*this, part, Token());
      return FromGrpc(member.endpoint, call(member, context.context()));
    };
    status = absl::OkStatus();
    if (!user_.empty() && Token().empty()) status = Authenticate(member, part);
    if (status.ok()) status = once();
    if (absl::IsUnauthenticated(status) && !user_.empty()) {
      status = Authenticate(member, part);
      if (status.ok()) status = once();
    }
    if (!absl::IsUnavailable(status) && !absl::IsDeadlineExceeded(status)) {
      current_ = at;
      return status;
    }
    size_t expected = at;
    current_.compare_exchange_strong(expected, (at + 1) % members_.size());
  }
  return status;
}

absl::StatusOr<TransactionResult> Client::Commit(const Transaction& transaction,
                                                 absl::Duration timeout) {
  const pb::TxnRequest request = ToMessage(transaction);
  pb::TxnResponse response;
  absl::Status status = OnMember(timeout, [&](Member& member, grpc::ClientContext* context) {
    response.Clear();
    return member.keys->Txn(context, request, &response);
  });
  if (!status.ok()) return status;
  return FromMessage(std::move(response));
}

absl::Status Client::Compact(Revision revision, absl::Duration timeout) {
  pb::CompactionRequest request;
  request.set_revision(revision);
  pb::CompactionResponse response;
  return OnMember(timeout, [&](Member& member, grpc::ClientContext* context) {
    return member.keys->Compact(context, request, &response);
  });
}

absl::StatusOr<absl::Duration> Client::GrantLease(int64_t id, absl::Duration ttl,
                                                  absl::Duration timeout) {
  pb::LeaseGrantRequest request;
  request.set_id(id);
  request.set_ttl(absl::ToInt64Seconds(ttl));
  pb::LeaseGrantResponse response;
  absl::Status status = OnMember(timeout, [&](Member& member, grpc::ClientContext* context) {
    return member.leases->LeaseGrant(context, request, &response);
  });
  if (!status.ok()) return status;
  if (!response.error().empty()) return absl::InternalError(response.error());
  return absl::Seconds(response.ttl());
}

absl::Status Client::RenewLease(int64_t id, absl::Duration timeout) {
  pb::LeaseKeepAliveRequest request;
  request.set_id(id);
  pb::LeaseKeepAliveResponse response;
  absl::Status status = OnMember(timeout, [&](Member& member, grpc::ClientContext* context) {
    response.Clear();
    const auto stream = member.leases->LeaseKeepAlive(context);
    const bool answered = stream->Write(request) && stream->Read(&response);
    if (answered) {
      // The call is over, whatever the member says of its end.
      context->TryCancel();
      stream->Finish().IgnoreError();
      return grpc::Status();
    }
    const grpc::Status ended = stream->Finish();
    return ended.ok() ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "the stream ended") : ended;
  });
  if (!status.ok()) return status;
  if (response.ttl() > 0) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("lease ", id, " has ended"));
}

absl::Status Client::RevokeLease(int64_t id, absl::Duration timeout) {
  pb::LeaseRevokeRequest request;
  request.set_id(id);
  pb::LeaseRevokeResponse response;
  return OnMember(timeout, [&](Member& member, grpc::ClientContext* context) {
    return member.leases->LeaseRevoke(context, request, &response);
  });
}

absl::Status Client::Watch(const Range& range, absl::AnyInvocable<bool(Events&&)> take) {
  pb::WatchRequest request;
  pb::WatchCreateRequest& create = *request.mutable_create_request();
  create.set_key(range.key);
  create.set_range_end(range.end);
  create.set_start_revision(range.revision);
  return OnMember(absl::InfiniteDuration(), [&](Member& member, grpc::ClientContext* context) {
    // A member that is cut off from the others has no news, and says so itself.
    context->AddMetadata("hasleader", "true");
    const auto stream = member.watches->Watch(context);
    pb::WatchResponse response;
    bool wanted = stream->Write(request);
    while (wanted && stream->Read(&response)) {
      if (response.canceled()) {
        context->TryCancel();
        stream->Finish().IgnoreError();
        const bool forgotten = response.compact_revision() > 0;
        return grpc::Status(
            forgotten ? grpc::StatusCode::OUT_OF_RANGE : grpc::StatusCode::UNAVAILABLE,
            absl::StrCat("the watch was cancelled: ", response.cancel_reason()));
      }
      Events events{.revision = response.header().revision()};
      for (pb::Event& event : *response.mutable_events()) {
        const bool deleted = event.type() == pb::Event::DELETE;
        events.events.push_back(FromMessage(std::move(*event.mutable_kv())));
        if (deleted) events.events.back().created = 0;
      }
      wanted = take(std::move(events));
    }
    if (!wanted) context->TryCancel();
    const grpc::Status ended = stream->Finish();
    if (!wanted) return grpc::Status();
    return ended.ok() ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "the stream ended") : ended;
  });
}

std::vector<absl::StatusOr<MemberStatus>> Client::StatusOfMembers(absl::Duration timeout) {
  std::vector<absl::StatusOr<MemberStatus>> all;
  for (const auto& member : members_) {
    pb::StatusResponse response;
    Call call(*this, timeout, Token());
    absl::Status status =
        FromGrpc(member->endpoint,
                 member->maintenance->Status(call.context(), pb::StatusRequest(), &response));
    if (!status.ok()) {
      all.push_back(std::move(status));
      continue;
    }
    all.push_back(MemberStatus{.version = response.version(),
                               .member = response.header().member_id(),
                               .leader = response.leader()});
  }
  return all;
}

}  // namespace lockstep::etcd
