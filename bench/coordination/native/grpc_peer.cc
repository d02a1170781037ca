// Peers that speak gRPC: a bare echo, etcd, and jaxlib's coordination service (or a listener for
// its clients). Requests are made by hand, since they are small and the protocols are theirs.
#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "jax_calls.h"
#include "peer.h"
#include "protozero/pbf_reader.hpp"
#include "protozero/pbf_writer.hpp"

namespace lockstep::bench {
namespace {

using protozero::pbf_reader;
using protozero::pbf_writer;

// One completion queue and one thread for all clients; each has a channel, so a connection, of its
// own.
class GrpcPeer : public Peer {
 public:
  explicit GrpcPeer(std::string address) : address_(std::move(address)) {}

  void Connect(size_t clients) override {
    for (size_t i = 0; i < clients; ++i) {
      grpc::ChannelArguments arguments;
      arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
      arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
      arguments.SetMaxReceiveMessageSize(-1);
      auto channel =
          grpc::CreateCustomChannel(address_, grpc::InsecureChannelCredentials(), arguments);
      if (!channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(30))) {
        Die("cannot connect to " + address_);
      }
      stubs_.push_back(std::make_unique<grpc::GenericStub>(channel));
      channels_.push_back(std::move(channel));
    }
  }

  void Run() override {
    stopped_ = false;
    void* tag = nullptr;
    bool ok = false;
    while (!stopped_ && queue_.Next(&tag, &ok)) static_cast<Tag*>(tag)->Came(ok);
  }
  void Stop() override { stopped_ = true; }

 protected:
  using Reply = std::function<void(std::string bytes)>;

  void Call(size_t client, const std::string& method, std::string request, Reply reply,
            bool fails = false) {
    auto* call = new Unary(std::move(reply), method, fails);
    const grpc::Slice slice(request);
    const grpc::ByteBuffer buffer(&slice, 1);
    call->reader = stubs_[client]->PrepareUnaryCall(&call->context, method, buffer, &queue_);
    call->reader->StartCall();
    call->reader->Finish(&call->answer, &call->status, call);
  }

  // Opens a stream, sends one message and calls `reply` for each that comes, for ever.
  void Stream(size_t client, const std::string& method, std::string request, Reply reply) {
    auto* stream = new Bidirectional(std::move(request), std::move(reply));
    stream->calls = stubs_[client]->PrepareCall(&stream->context, method, &queue_);
    stream->calls->StartCall(stream);
  }

  static std::string Bytes(const grpc::ByteBuffer& buffer) {
    std::vector<grpc::Slice> slices;
    if (!buffer.Dump(&slices).ok()) Die("cannot read an answer");
    std::string bytes;
    for (const grpc::Slice& slice : slices) {
      bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
    }
    return bytes;
  }

 private:
  struct Tag {
    virtual ~Tag() = default;
    virtual void Came(bool ok) = 0;
  };
  struct Unary : Tag {
    void Came(bool) override {
      if (status.ok() == fails) {
        Die(absl::StrCat(method, ": ", int{status.error_code()}, " ", status.error_message()));
      }
      reply(fails ? "" : Bytes(answer));
      delete this;
    }
    Unary(Reply r, std::string m, bool f) : reply(std::move(r)), method(std::move(m)), fails(f) {}
    Reply reply;
    std::string method;
    bool fails;  // as the caller expects
    grpc::ClientContext context;
    grpc::ByteBuffer answer;
    grpc::Status status;
    std::unique_ptr<grpc::GenericClientAsyncResponseReader> reader;
  };
  struct Bidirectional : Tag {
    enum class State { kStarting, kWriting, kReading };
    Bidirectional(std::string q, Reply r) : request(std::move(q)), reply(std::move(r)) {}
    void Came(bool ok) override {
      if (!ok) Die("a stream broke");
      switch (state) {
        case State::kStarting: {
          state = State::kWriting;
          const grpc::Slice slice(request);
          return calls->Write(grpc::ByteBuffer(&slice, 1), this);
        }
        case State::kWriting:
          state = State::kReading;
          return calls->Read(&answer, this);
        case State::kReading: {
          const std::string bytes = Bytes(answer);
          answer.Clear();
          calls->Read(&answer, this);
          return reply(bytes);
        }
      }
    }
    std::string request;
    Reply reply;
    State state = State::kStarting;
    grpc::ClientContext context;
    grpc::ByteBuffer answer;
    std::unique_ptr<grpc::GenericClientAsyncReaderWriter> calls;
  };

  const std::string address_;
  grpc::CompletionQueue queue_;
  std::vector<std::shared_ptr<grpc::Channel>> channels_;
  std::vector<std::unique_ptr<grpc::GenericStub>> stubs_;
  bool stopped_ = false;
};

class GrpcEchoPeer : public GrpcPeer {
 public:
  using GrpcPeer::GrpcPeer;
  void Set(size_t client, std::string key, std::string value, Done done) override {
    Call(client, "/lockstep.bench.Echo/Echo", key + value,
         [done = std::move(done)](const std::string&) { done({}); });
  }
  void Get(size_t client, std::string key, Done done) override {
    Set(client, std::move(key), std::string(64, 'x'), std::move(done));
  }
};

// --- etcd, API version 3 ---

std::string EtcdPut(const std::string& key, const std::string& value) {
  std::string bytes;
  pbf_writer put(bytes);
  put.add_bytes(1, key);
  put.add_bytes(2, value);
  return bytes;
}

// The first value of a RangeResponse; false when there is none.
bool EtcdValue(const std::string& response, std::string* value) {
  pbf_reader in(response);
  while (in.next(2)) {
    pbf_reader entry = in.get_message();
    while (entry.next(5)) value->assign(entry.get_string());
    return true;
  }
  return false;
}

class EtcdPeer : public GrpcPeer {
 public:
  using GrpcPeer::GrpcPeer;

  void Set(size_t client, std::string key, std::string value, Done done) override {
    Call(client, "/etcdserverpb.KV/Put", EtcdPut(key, value),
         [done = std::move(done)](const std::string&) { done({}); });
  }
  void Get(size_t client, std::string key, Done done) override {
    std::string request;
    pbf_writer(request).add_bytes(1, key);
    Call(client, "/etcdserverpb.KV/Range", std::move(request),
         [done = std::move(done)](const std::string& response) {
           std::string value;
           if (!EtcdValue(response, &value)) Die("etcd has no such key");
           done(value);
         });
  }
  // As its users do: a watch, here from the first revision, so that no write is missed.
  void Wait(size_t client, std::string key, Done done) override {
    auto once = std::make_shared<Done>(std::move(done));
    Follow(
        client, std::move(key), 1, [](std::string_view) {},
        [once](std::string_view value) {
          if (*once) std::exchange(*once, nullptr)(value);
        });
  }
  void Swap(size_t client, std::string key, std::string expected, std::string value,
            Done done) override {
    std::string compare;
    pbf_writer condition(compare);
    condition.add_enum(2, expected.empty() ? 0 : 3);  // its version, or its value
    condition.add_bytes(3, key);
    if (expected.empty()) {
      condition.add_int64(4, 0);
    } else {
      condition.add_bytes(7, expected);
    }
    std::string operation;
    pbf_writer(operation).add_message(2, EtcdPut(key, value));
    std::string request;
    pbf_writer transaction(request);
    transaction.add_message(1, compare);
    transaction.add_message(2, operation);
    Call(client, "/etcdserverpb.KV/Txn", std::move(request),
         [done = std::move(done)](const std::string&) { done({}); });
  }
  void Watch(size_t client, std::string key, Done ready, Done changed) override {
    Follow(client, std::move(key), 0, std::move(ready), std::move(changed));
  }

 private:
  void Follow(size_t client, std::string key, int64_t from, Done ready, Done changed) {
    std::string create;
    pbf_writer asked(create);
    asked.add_bytes(1, key);
    if (from != 0) asked.add_int64(3, from);
    std::string request;
    pbf_writer(request).add_message(1, create);
    Stream(client, "/etcdserverpb.Watch/Watch", std::move(request),
           [ready = std::move(ready), changed = std::move(changed)](const std::string& response) {
             pbf_reader in(response);
             while (in.next()) {
               if (in.tag() == 3) {
                 if (in.get_bool()) ready({});
               } else if (in.tag() == 11) {
                 pbf_reader event = in.get_message();
                 while (event.next(2)) {
                   pbf_reader entry = event.get_message();
                   std::string value;
                   while (entry.next(5)) value = entry.get_string();
                   changed(value);
                 }
               } else {
                 in.skip();
               }
             }
           });
  }
};

// --- jaxlib's coordination service, or what serves its clients ---

class JaxlibPeer : public JaxCalls<GrpcPeer> {
 public:
  using JaxCalls::JaxCalls;
  void Connect(size_t clients) override {
    GrpcPeer::Connect(clients);
    Register(clients);
  }
};

}  // namespace

std::unique_ptr<Peer> MakeGrpcEchoPeer(const std::string& address) {
  return std::make_unique<GrpcEchoPeer>(address);
}
std::unique_ptr<Peer> MakeEtcdPeer(const std::string& address) {
  return std::make_unique<EtcdPeer>(address);
}
std::unique_ptr<Peer> MakeJaxlibPeer(const std::string& address) {
  return std::make_unique<JaxlibPeer>(address);
}

}  // namespace lockstep::bench
