// How long a key is waited for while another link pipelines one of the dear requests without end.
// The server runs in this process; what is measured is the whole way over a socket.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "asio/buffer.hpp"
#include "asio/io_context.hpp"
#include "asio/ip/tcp.hpp"
#include "asio/write.hpp"
#include "lockstep/data/plan/definition.h"
#include "lockstep/platform/link/client.h"
#include "lockstep/platform/link/frame.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/platform/runtime/open_files.h"
#include "lockstep/server/server.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/data_definition.h"
#include "lockstep/wire/native/data_service_messages.h"
#include "lockstep/wire/native/link_messages.h"
#include "lockstep/wire/native/to_event.h"

namespace lockstep {
namespace {

using namespace wire::native;  // NOLINT: the messages are what this file is about

constexpr absl::Duration kPatience = absl::Seconds(60);

template <class Request>
std::string BytesOf(uint64_t id, const Request& request) {
  return link::EncodeMessage({.type = link::FrameType::kRequest,
                              .kind = KindOf<Request>::kKind,
                              .id = id,
                              .payload = Encode(request)});
}

// A dear request, of one or several messages, and what a link says before the first. `id` is the
// last one that was given, before and after.
struct Kind {
  std::string name;
  std::function<std::string(uint64_t& id)> hello;
  std::function<std::string(uint64_t& id)> request;
};

// A link that speaks without waiting for answers.
class Speaker {
 public:
  explicit Speaker(const runtime::Address& address) : socket_(io_) {
    socket_.connect({asio::ip::make_address(address.host), address.port});
    Send(link::EncodeMessage({.type = link::FrameType::kHello,
                              .payload = Encode(Hello{.version_min = link::kLinkVersion,
                                                      .version_max = link::kLinkVersion,
                                                      .who = "hostile"})}));
  }
  // False: the server has closed the link.
  bool Send(const std::string& bytes) {
    asio::error_code error;
    asio::write(socket_, asio::buffer(bytes), error);
    return !error;
  }
  asio::ip::tcp::socket& socket() { return socket_; }

 private:
  asio::io_context io_;
  asio::ip::tcp::socket socket_;
};

// Sends requests as fast as they are taken, and throws the answers away.
class HostileLink {
 public:
  HostileLink(const runtime::Address& address, const Kind& kind) : speaker_(address) {
    reader_ = std::thread([this] {
      std::string bytes(size_t{1} << 20, '\0');
      asio::error_code error;
      while (!error) speaker_.socket().read_some(asio::buffer(bytes), error);
      over_ = true;
    });
    writer_ = std::thread([this, &kind] {
      uint64_t id = 0;
      if (!speaker_.Send(kind.hello(id))) over_ = true;
      for (uint64_t sent = 1; !over_; ++sent) {
        if (!speaker_.Send(kind.request(id))) over_ = true;
        ++requests_;
        // So that the answers that the server keeps for us do not become too many.
        if (sent % kAnswersMax == 0) {
          speaker_.Send(link::EncodeMessage(
              {.type = link::FrameType::kAnswered, .payload = Encode(Answered{id})}));
        }
      }
    });
  }
  ~HostileLink() {
    over_ = true;
    asio::error_code ignored;
    speaker_.socket().shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
    reader_.join();
    writer_.join();
  }
  // The server has closed it.
  bool over() const { return over_; }
  uint64_t requests() const { return requests_; }

 private:
  static constexpr uint64_t kAnswersMax = 256;

  Speaker speaker_;
  std::atomic<bool> over_ = false;
  std::atomic<uint64_t> requests_ = 0;
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

// Sizes of what the requests are about.
struct Sizes {
  int jobs = 999;  // and one that meets at barriers
  int large = 3;
  int members = 65'536;
  int meeting = 256;
  int keys = 100'000;
  int data = 5000;
};

// The job of each kind's session; a new session each time, since links come and go.
std::string Opened(uint64_t& id, const std::string& job) {
  static std::atomic<uint64_t> last = 1;
  return BytesOf(++id, OpenSession{.session = ToBytes({.high = 1, .low = ++last}), .job = job});
}

std::string KeyName(int i) { return absl::StrCat("many/", i); }

// Sets so many keys, without waiting for answers.
std::string SetKeys(uint64_t& id, absl::string_view directory, int keys) {
  std::string all;
  for (int i = 0; i < keys; ++i) {
    all += BytesOf(++id, SetKey{.key = absl::StrCat(directory, "/", i), .value = {"v"}});
    if (i % 256 == 255) {
      all += link::EncodeMessage(
          {.type = link::FrameType::kAnswered, .payload = Encode(Answered{id})});
    }
  }
  return all;
}

// All but the first, whose place the hostile link takes, of those who meet at barriers.
class Meeting {
 public:
  Meeting(const runtime::Address& address, int size) {
    for (int i = 1; i < size; ++i) {
      uint64_t id = 0;
      members_.push_back(std::make_unique<Speaker>(address));
      members_.back()->Send(Opened(id, "meeting"));
      members_.back()->Send(
          BytesOf(++id, JoinJob{.index = i, .incarnation = static_cast<uint64_t>(i) + 1}));
    }
    // They are heard, so that they stay in.
    pings_ = std::thread([this] {
      while (!over_) {
        for (const auto& member : members_) {
          member->Send(link::EncodeMessage({.type = link::FrameType::kPing}));
        }
        std::this_thread::sleep_for(std::chrono::seconds(1));
      }
    });
  }
  ~Meeting() {
    over_ = true;
    pings_.join();
  }

 private:
  std::vector<std::unique_ptr<Speaker>> members_;
  std::atomic<bool> over_ = false;
  std::thread pings_;
};

// Datasets, as many iterations with a consumer each, and as many consumers of one iteration.
void FillDataService(link::Client& client, int size) {
  const plan::Definition definition = {.nodes = {{.id = 1, .op = "range", .attrs = {{"stop", 9}}}}};
  static uint64_t life = 0;
  static int round = 0;
  ++round;
  int64_t first = 0;
  for (int i = 0; i < size; ++i) {
    const auto registered =
        client.Call(RegisterDataset{.name = absl::StrCat("dataset", i),
                                    .definition = {EncodeDefinition(definition)}},
                    kPatience);
    if (!registered.ok()) Must(client, RegisterDataset{});
    OpenIteration open = {
        .spec = {.name = absl::StrCat("iteration", i, "/", round), .dataset = registered->dataset},
        .consumer = "c",
        .life = ++life};
    Must(client, open);
    open.spec.name = absl::StrCat("large/", round);
    if (i == 0) first = registered->dataset;
    open.spec.dataset = first;
    open.consumer = absl::StrCat("c", i);
    Must(client, open);
  }
}

std::vector<Kind> Kinds(const Sizes& sizes) {
  const auto large = [](uint64_t& id) { return Opened(id, "job0"); };
  const auto nothing = [](uint64_t&) { return std::string(); };
  GetKeys all;
  for (int i = 0; i < std::min(sizes.keys, 65'536); ++i) all.keys.push_back(KeyName(i));
  std::vector<int32_t> meeting(static_cast<size_t>(sizes.meeting));
  std::iota(meeting.begin(), meeting.end(), 0);
  return {
      {"status", nothing, [](uint64_t& id) { return BytesOf(++id, StatusRequest{}); }},
      {"list", large,
       [](uint64_t& id) {
         return BytesOf(++id, ListKeys{.directory = "many", .limit = 1'000'000});
       }},
      {"get-many", large, [all](uint64_t& id) { return BytesOf(++id, all); }},
      {"watch-keys", large, [](uint64_t& id) { return BytesOf(++id, WatchKeys{.key = "many"}); }},
      {"delete", large,
       [keys = sizes.keys](uint64_t& id) {
         const std::string sets = SetKeys(id, "gone", keys);
         return sets + BytesOf(++id, DeleteKey{.key = "gone", .below = true});
       }},
      {"watch-job", large, [](uint64_t& id) { return BytesOf(++id, WatchJob{}); }},
      {"events", nothing, [](uint64_t& id) { return BytesOf(++id, WatchEvents{}); }},
      {"data", nothing, [](uint64_t& id) { return BytesOf(++id, DataStatus{}); }},
      {"barrier",
       [](uint64_t& id) {
         return Opened(id, "meeting") + BytesOf(++id, JoinJob{.index = 0, .incarnation = 1});
       },
       [meeting](uint64_t& id) {
         const std::string name = absl::StrCat("b", id);
         return BytesOf(++id, Barrier{.id = name, .timeout_us = 1, .members = meeting});
       }},
  };
}

// Of the kind, beside what the client reads without a hostile link.
void MeasureBeside(link::Client& client, const runtime::Address& address, const Kind& kind,
                   absl::Duration time) {
  // One after the other, since the server closes who does not read fast enough.
  std::atomic<bool> done = false;
  int links = 0;
  uint64_t requests = 0;
  std::thread hostile([&] {
    while (!done) {
      const HostileLink link(address, kind);
      ++links;
      while (!done && !link.over()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      requests += link.requests();
    }
  });
  Report(absl::StrCat("beside ", kind.name).c_str(), Measure(client, time));
  done = true;
  hostile.join();
  std::printf("%-22s %7lu requests over %d links\n", "", requests, links);
  std::fflush(stdout);
}

void Prepare(link::Client& client, const runtime::Address& address, const Sizes& sizes) {
  for (int i = 0; i < sizes.jobs; ++i) {
    Must(client,
         CreateJob{.job = absl::StrCat("job", i), .size = i < sizes.large ? sizes.members : 8});
  }
  Must(client, CreateJob{.job = "meeting", .size = sizes.meeting});
  Must(client, OpenSession{.session = ToBytes({.high = 1, .low = 1}), .job = "job0"});
  Must(client, SetKey{.key = "a", .value = {"v"}});
  Speaker writer(address);
  uint64_t id = 0;
  writer.Send(Opened(id, "job0"));
  writer.Send(SetKeys(id, "many", sizes.keys));
  Must(client, GetKeys{.keys = {KeyName(sizes.keys - 1)}});
}

int Main(int argc, char** argv) {
  CLI::App app("How long a client waits beside a hostile one");
  Sizes sizes;
  int seconds = 10;
  std::string state;
  std::vector<std::string> wanted;
  app.add_option("--jobs", sizes.jobs, "jobs of the server")->capture_default_str();
  app.add_option("--large", sizes.large, "of them that are large")->capture_default_str();
  app.add_option("--members", sizes.members, "of a large job")->capture_default_str();
  app.add_option("--meeting", sizes.meeting, "members at a barrier")->capture_default_str();
  app.add_option("--keys", sizes.keys, "that are listed, read and deleted")->capture_default_str();
  app.add_option("--data", sizes.data, "datasets, iterations and consumers of one")
      ->capture_default_str();
  app.add_option("--seconds", seconds, "of each measurement")->capture_default_str();
  app.add_option("--state", state, "an empty directory: the server keeps its state there");
  app.add_option("--kind", wanted,
                 "what is asked for: status, list, get-many, watch-keys, delete, watch-job, "
                 "events, data, barrier; all of them unless given");
  CLI11_PARSE(app, argc, argv);

  runtime::RaiseOpenFilesLimit();
  server::ServerOptions options;
  options.listen = {.host = "127.0.0.1", .port = 0};
  options.state_directory = state;
  auto server = server::Server::Start(options);
  if (!server.ok()) return std::fprintf(stderr, "%s\n", server.status().ToString().c_str()), 1;
  auto client = link::Client::Connect((*server)->listen_address(), kPatience, {});
  if (!client.ok()) return std::fprintf(stderr, "%s\n", client.status().ToString().c_str()), 1;
  const auto address = runtime::ParseAddress((*server)->listen_address());
  Prepare(**client, *address, sizes);
  Report("alone", Measure(**client, absl::Seconds(seconds)));

  for (const Kind& kind : Kinds(sizes)) {
    const auto named = std::find(wanted.begin(), wanted.end(), kind.name);
    if (!wanted.empty() && named == wanted.end()) continue;
    std::optional<Meeting> meeting;
    if (kind.name == "barrier") meeting.emplace(*address, sizes.meeting);
    if (kind.name == "data") FillDataService(**client, sizes.data);
    (*server)->turns().Reset();
    MeasureBeside(**client, *address, kind, absl::Seconds(seconds));
    std::printf("%-22s longest turn of the server %.3f ms of CPU\n", "",
                absl::ToDoubleMilliseconds((*server)->turns().longest()));
  }
  return 0;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) { return lockstep::Main(argc, argv); }
