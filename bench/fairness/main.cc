// How long a key is waited for while another link pipelines requests for the status of all jobs
// without end. The server runs in this process; what is measured is the whole way over a socket.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "asio/buffer.hpp"
#include "asio/io_context.hpp"
#include "asio/ip/tcp.hpp"
#include "asio/write.hpp"
#include "lockstep/link/client.h"
#include "lockstep/link/frame.h"
#include "lockstep/runtime/loop.h"
#include "lockstep/runtime/open_files.h"
#include "lockstep/server/server.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/link_messages.h"
#include "lockstep/wire/native/to_event.h"

namespace lockstep {
namespace {

using namespace wire::native;  // NOLINT: the messages are what this file is about

constexpr absl::Duration kPatience = absl::Seconds(60);

// Sends requests in batches, as fast as they are taken, and throws the answers away.
class HostileLink {
 public:
  explicit HostileLink(const runtime::Address& address) : socket_(io_) {
    socket_.connect({asio::ip::make_address(address.host), address.port});
    Send({.type = link::FrameType::kHello,
          .payload = Encode(Hello{.version_min = link::kLinkVersion,
                                  .version_max = link::kLinkVersion,
                                  .who = "hostile"})});
    reader_ = std::thread([this] {
      std::string bytes(size_t{1} << 20, '\0');
      asio::error_code error;
      while (!error) socket_.read_some(asio::buffer(bytes), error);
      over_ = true;
    });
    writer_ = std::thread([this] {
      for (uint64_t id = 1; !over_; ++id) {
        Send({.type = link::FrameType::kRequest,
              .kind = KindOf<StatusRequest>::kKind,
              .id = id,
              .payload = Encode(StatusRequest{})});
      }
    });
  }
  ~HostileLink() {
    over_ = true;
    asio::error_code ignored;
    socket_.shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
    reader_.join();
    writer_.join();
  }
  // The server has closed it.
  bool over() const { return over_; }

 private:
  void Send(const link::Message& message) {
    const std::string bytes = link::EncodeMessage(message);
    asio::error_code error;
    asio::write(socket_, asio::buffer(bytes), error);
    if (error) over_ = true;
  }

  asio::io_context io_;
  asio::ip::tcp::socket socket_;
  std::atomic<bool> over_ = false;
  std::thread reader_;
  std::thread writer_;
};

template <class Request>
void Must(link::Client& client, const Request& request) {
  const auto reply = client.Call(request, kPatience);
  if (reply.ok()) return;
  std::fprintf(stderr, "%s\n", reply.status().ToString().c_str());
  std::exit(1);
}

void Report(const char* what, std::vector<double> waits) {
  std::sort(waits.begin(), waits.end());
  const auto at = [&](double part) {
    const auto place = static_cast<size_t>(part * static_cast<double>(waits.size()));
    return waits[std::min(waits.size() - 1, place)];
  };
  std::printf("%-22s %7zu gets  p50 %8.3f ms  p99 %8.3f ms  max %8.3f ms\n", what, waits.size(),
              at(0.5), at(0.99), waits.back());
}

std::vector<double> Measure(link::Client& client, absl::Duration time) {
  std::vector<double> waits;
  const Time until = runtime::MonotonicNow() + time;
  while (runtime::MonotonicNow() < until) {
    const Time began = runtime::MonotonicNow();
    Must(client, GetKey{.key = "a"});
    waits.push_back(absl::ToDoubleMilliseconds(runtime::MonotonicNow() - began));
  }
  return waits;
}

int Main(int argc, char** argv) {
  CLI::App app("How long a client waits beside a hostile one");
  int jobs = 1000;
  int large = 4;
  int members = 65'536;
  int seconds = 10;
  app.add_option("--jobs", jobs, "jobs of the server")->capture_default_str();
  app.add_option("--large", large, "of them that are large")->capture_default_str();
  app.add_option("--members", members, "of a large job")->capture_default_str();
  app.add_option("--seconds", seconds, "of each measurement")->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  runtime::RaiseOpenFilesLimit();
  server::ServerOptions options;
  options.listen = {.host = "127.0.0.1", .port = 0};
  auto server = server::Server::Start(options);
  if (!server.ok()) return std::fprintf(stderr, "%s\n", server.status().ToString().c_str()), 1;
  auto client = link::Client::Connect((*server)->listen_address(), kPatience, {});
  if (!client.ok()) return std::fprintf(stderr, "%s\n", client.status().ToString().c_str()), 1;
  for (int i = 0; i < jobs; ++i) {
    Must(**client, CreateJob{.job = absl::StrCat("job", i), .size = i < large ? members : 8});
  }
  Must(**client, OpenSession{.session = ToBytes({.high = 1, .low = 1}), .job = "job0"});
  Must(**client, SetKey{.key = "a", .value = {"v"}});
  Report("alone", Measure(**client, absl::Seconds(seconds)));

  // One after the other, since the server closes who does not read fast enough.
  const auto address = runtime::ParseAddress((*server)->listen_address());
  std::atomic<bool> done = false;
  int links = 0;
  std::thread hostile([&] {
    while (!done) {
      const HostileLink link(*address);
      ++links;
      while (!done && !link.over()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  Report("beside a hostile link", Measure(**client, absl::Seconds(seconds)));
  done = true;
  hostile.join();
  std::printf("the hostile client needed %d links\n", links);
  return 0;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) { return lockstep::Main(argc, argv); }
