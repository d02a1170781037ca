// echo_servers: what TCP and gRPC cost alone. Prints the two addresses, and ends with its input.
#include <cstdio>
#include <memory>
#include <string>
#include <thread>

#include "asio.hpp"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/grpcpp.h"

namespace lockstep::bench {
namespace {

using asio::ip::tcp;

class TcpEcho : public std::enable_shared_from_this<TcpEcho> {
 public:
  explicit TcpEcho(tcp::socket socket) : socket_(std::move(socket)) {
    socket_.set_option(tcp::no_delay(true));
  }
  void Read() {
    socket_.async_read_some(asio::buffer(buffer_),
                            [self = shared_from_this()](const asio::error_code& error, size_t n) {
                              if (!error) self->Write(n);
                            });
  }

 private:
  void Write(size_t bytes) {
    asio::async_write(socket_, asio::buffer(buffer_, bytes),
                      [self = shared_from_this()](const asio::error_code& error, size_t) {
                        if (!error) self->Read();
                      });
  }
  tcp::socket socket_;
  char buffer_[1 << 16];
};

void Accept(tcp::acceptor& acceptor) {
  acceptor.async_accept([&acceptor](const asio::error_code& error, tcp::socket socket) {
    if (!error) std::make_shared<TcpEcho>(std::move(socket))->Read();
    Accept(acceptor);
  });
}

class GrpcEcho : public grpc::CallbackGenericService {
  class Reactor : public grpc::ServerGenericBidiReactor {
   public:
    Reactor() { StartRead(&message_); }
    void OnReadDone(bool ok) override {
      if (ok) return StartWriteAndFinish(&message_, {}, grpc::Status::OK);
      Finish(grpc::Status::CANCELLED);
    }
    void OnDone() override { delete this; }

   private:
    grpc::ByteBuffer message_;
  };
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext*) override {
    return new Reactor;
  }
};

int Main() {
  asio::io_context io;
  tcp::acceptor acceptor(io, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  Accept(acceptor);
  std::thread loop([&io] { io.run(); });

  GrpcEcho echo;
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterCallbackGenericService(&echo);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  std::printf("{\"tcp-echo\": \"127.0.0.1:%d\", \"grpc-echo\": \"127.0.0.1:%d\"}\n",
              acceptor.local_endpoint().port(), port);
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  server->Shutdown();
  io.stop();
  loop.join();
  return 0;
}

}  // namespace
}  // namespace lockstep::bench

int main() { return lockstep::bench::Main(); }
