// grpc_peer: gRPC in the shape of bench/rendezvous. The value is a `bytes` field of a message, or
// slices of a ByteBuffer that lie in the producer's pool (--slices); the consumer copies it out to
// where it wants it. Prints one line of JSON.
#include <google/protobuf/wrappers.pb.h>
#include <sys/wait.h>

#include <memory>

#include "CLI/CLI.hpp"
#include "bench/limits/measure.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/impl/codegen/client_unary_call.h"
#include "grpcpp/impl/codegen/method_handler.h"
#include "grpcpp/impl/codegen/proto_utils.h"
#include "grpcpp/impl/codegen/rpc_method.h"
#include "grpcpp/impl/codegen/rpc_service_method.h"

namespace lockstep::bench {
namespace {

using google::protobuf::BytesValue;
using grpc::internal::RpcMethod;

constexpr char kMethod[] = "/lockstep.bench.Transfer/Fetch";

struct Settings {
  size_t bytes = 8;
  int rounds = 1000;
  bool slices = false;
};

// One method, without generated code.
template <class Answer>
class Producer final : public grpc::Service {
 public:
  explicit Producer(const Settings& settings) : pool_(settings.bytes, /*huge=*/false) {
    using Handler = grpc::internal::RpcMethodHandler<Producer, BytesValue, Answer>;
    AddMethod(new grpc::internal::RpcServiceMethod(
        kMethod, RpcMethod::NORMAL_RPC,
        new Handler([](Producer* self, grpc::ServerContext*, const BytesValue*,
                       Answer* answer) { return self->Fill(*answer); },
                    this)));
  }

 private:
  grpc::Status Fill(BytesValue& answer) {
    const auto value = pool_.Next();
    answer.set_value(value.data(), value.size());
    return grpc::Status::OK;
  }
  grpc::Status Fill(grpc::ByteBuffer& answer) {
    const auto value = pool_.Next();
    const grpc::Slice slice(value.data(), value.size(), grpc::Slice::STATIC_SLICE);
    answer = grpc::ByteBuffer(&slice, 1);
    return grpc::Status::OK;
  }
  SourcePool pool_;
};

// Until its standard input, which is a pipe from the consumer, ends.
template <class Answer>
[[noreturn]] void Produce(const Settings& settings, int tell, int until) {
  Producer<Answer> service(settings);
  int port = 0;
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(-1).SetMaxSendMessageSize(-1);
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (!server || ::write(tell, &port, sizeof(port)) != sizeof(port)) DieOf("the gRPC server");
  char byte = 0;
  while (::read(until, &byte, 1) > 0) {
  }
  std::_Exit(0);
}

void CopyOut(const BytesValue& answer, std::span<std::byte> into) {
  std::memcpy(into.data(), answer.value().data(), into.size());
}

void CopyOut(const grpc::ByteBuffer& answer, std::span<std::byte> into) {
  std::vector<grpc::Slice> slices;
  if (!answer.Dump(&slices).ok() || answer.Length() != into.size()) DieOf("reading an answer");
  for (const grpc::Slice& slice : slices) {
    std::memcpy(into.data(), slice.begin(), slice.size());
    into = into.subspan(slice.size());
  }
}

template <class Answer>
Figures Consume(const Settings& settings, int port, pid_t producer) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  const auto channel = grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(port),
                                                 grpc::InsecureChannelCredentials(), arguments);
  const RpcMethod method(kMethod, RpcMethod::NORMAL_RPC, channel);
  const Pages into(settings.bytes, /*huge=*/false);
  const auto cpu = [&] { return CpuSeconds(::getpid()) + CpuSeconds(producer); };
  BytesValue ask;
  ask.set_value("12345678");
  Figures figures;
  Clock::time_point begin_all;
  const int warm = WarmRounds(settings.rounds);
  for (int round = 0; round < settings.rounds; ++round) {
    if (round == warm) {
      figures.cpu = -cpu();
      begin_all = Clock::now();
    }
    const Clock::time_point begin = Clock::now();
    grpc::ClientContext context;
    Answer answer;
    const grpc::Status status =
        grpc::internal::BlockingUnaryCall(channel.get(), method, &context, ask, &answer);
    if (!status.ok()) {
      std::fprintf(stderr, "grpc_peer: %s\n", status.error_message().c_str());
      std::_Exit(1);
    }
    CopyOut(answer, into.bytes());
    if (round >= warm) figures.us.push_back(MicrosecondsSince(begin));
  }
  figures.seconds = MicrosecondsSince(begin_all) * 1e-6;
  figures.cpu += cpu();
  return figures;
}

int Main(int argc, char** argv) {
  Settings settings;
  CLI::App app("gRPC, beside ours; see bench/rendezvous/run.py");
  app.add_option("--bytes", settings.bytes);
  app.add_option("--rounds", settings.rounds);
  app.add_flag("--slices", settings.slices);
  CLI11_PARSE(app, argc, argv);
  // Forked before gRPC has threads.
  int told[2];
  int until[2];
  if (::pipe(told) != 0 || ::pipe(until) != 0) DieOf("pipe");
  const pid_t producer = ::fork();
  if (producer < 0) DieOf("fork");
  if (producer == 0) {
    ::close(until[1]);
    if (settings.slices) Produce<grpc::ByteBuffer>(settings, told[1], until[0]);
    Produce<BytesValue>(settings, told[1], until[0]);
  }
  int port = 0;
  if (::read(told[0], &port, sizeof(port)) != sizeof(port)) DieOf("the gRPC server");
  Print(settings.bytes, settings.slices ? Consume<grpc::ByteBuffer>(settings, port, producer)
                                        : Consume<BytesValue>(settings, port, producer));
  std::fflush(stdout);
  ::close(until[1]);
  ::waitpid(producer, nullptr, 0);
  return 0;
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) { return lockstep::bench::Main(argc, argv); }
