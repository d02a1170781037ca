// rendezvous_bench: one of the two processes that hand values to each other, or both in one.
// bench/rendezvous/run.py starts the server and both of them, and the peers it is compared with.
//
// The shape: the consumer asks by a value of 8 bytes, the producer answers with N bytes, taken in
// turn from a pool that is larger than the caches where N is; the time is from the request until
// all bytes can be read in the consumer. With --stream a few requests are under way at a time, so
// that values follow each other. Prints one line of JSON.
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "bench/limits/measure.h"
#include "lockstep/client/member.h"
#include "lockstep/client/rendezvous.h"

namespace lockstep::bench {
namespace {

[[noreturn]] void Die(const std::string& text) {
  std::fprintf(stderr, "rendezvous_bench: %s\n", text.c_str());
  std::exit(1);
}

void Check(const absl::Status& status) {
  if (!status.ok()) Die(status.ToString());
}

constexpr int kAheadInStream = 4;

struct Settings {
  std::string address;
  int index = 0;  // 0 produces, 1 consumes
  int64_t bytes = 8;
  int rounds = 1000;
  bool arena = true;  // values are made where others see them
  bool into = false;  // received into memory of the consumer's
  bool shared = true;
  bool read = false;     // the producer's memory is, where it is not shared
  bool huge = false;     // pages of private memory
  int ahead = 1;         // requests under way
  absl::Duration pause;  // of the producer, before it answers: who waits sleeps then
};

const CallOptions kWait = {.timeout = absl::Minutes(2)};

// What is sent in turn.
class Pool {
 public:
  Pool(Rendezvous& rendezvous, const Settings& settings) {
    const Description about = {.shape = {settings.bytes}};
    const auto bytes = static_cast<size_t>(settings.bytes);
    if (!settings.arena) {
      const auto own = std::make_shared<SourcePool>(bytes, settings.huge);
      for (size_t i = 0; i < own->count(); ++i) {
        values_.push_back(Tensor::Borrow(about, own->Next().data(), bytes, [own] {}));
      }
      return;
    }
    for (size_t i = 0; i < PoolCount(bytes); ++i) {
      auto made = rendezvous.Allocate(about);
      Check(made.status());
      std::memset(made->bytes().data(), static_cast<int>(i), made->bytes().size());
      values_.push_back(made->Finish());
    }
  }
  const Tensor& Next() { return values_[next_++ % values_.size()]; }

 private:
  std::vector<Tensor> values_;
  size_t next_ = 0;
};

// Answers, and says at the end what it spent and how long it paused each time.
void Produce(Rendezvous& rendezvous, Step& step, const Settings& settings) {
  Pool pool(rendezvous, settings);
  std::vector<double> spent = {0};
  for (int round = 0; round < settings.rounds; ++round) {
    Check(step.Recv("ask", 1, kWait).status());
    if (round == WarmRounds(settings.rounds)) spent[0] = -CpuSeconds(::getpid());
    if (settings.pause > absl::ZeroDuration()) {
      const Clock::time_point begin = Clock::now();
      absl::SleepFor(settings.pause);
      spent.push_back(MicrosecondsSince(begin));
    }
    Check(step.Send("value", 1, pool.Next()));
  }
  Check(step.Recv("done", 1, kWait).status());
  spent[0] += CpuSeconds(::getpid());
  Check(step.SendAcked(
      "spent", 1,
      Tensor::Copy({reinterpret_cast<const char*>(spent.data()), spent.size() * sizeof(double)}),
      kWait));
}

// One value.
void Take(Step& step, std::span<std::byte> into) {
  if (!into.empty()) return Check(step.RecvInto("value", 0, into, kWait));
  const auto received = step.Recv("value", 0, kWait);
  Check(received.status());
  const std::byte first = received->tensor.bytes()[0];
  asm volatile("" : : "r"(first));  // it is read
}

void Consume(Step& step, const Settings& settings) {
  const Pages memory(static_cast<size_t>(settings.bytes), settings.huge);
  const std::span<std::byte> into = settings.into ? memory.bytes() : std::span<std::byte>();
  const auto ask = [&] { Check(step.Send("ask", 0, Tensor::Copy("12345678"))); };
  Figures figures;
  Clock::time_point begin_all;
  const int warm = WarmRounds(settings.rounds);
  for (int i = 1; i < settings.ahead; ++i) ask();
  for (int round = 0; round < settings.rounds; ++round) {
    if (round == warm) {
      figures.cpu = -CpuSeconds(::getpid());
      begin_all = Clock::now();
    }
    const Clock::time_point begin = Clock::now();
    if (round + settings.ahead <= settings.rounds) ask();
    Take(step, into);
    if (round >= warm) figures.us.push_back(MicrosecondsSince(begin));
  }
  figures.seconds = MicrosecondsSince(begin_all) * 1e-6;
  figures.cpu += CpuSeconds(::getpid());
  Check(step.Send("done", 0, Tensor::Copy("1")));
  const auto received = step.Recv("spent", 0, kWait);
  Check(received.status());
  std::vector<double> spent(received->tensor.bytes().size() / sizeof(double));
  std::memcpy(spent.data(), received->tensor.bytes().data(), spent.size() * sizeof(double));
  figures.cpu += spent[0];
  for (size_t i = 0; spent.size() > 1 && i < figures.us.size(); ++i) {
    figures.us[i] -= spent[1 + static_cast<size_t>(warm) + i];
  }
  Print(static_cast<size_t>(settings.bytes), std::move(figures));
}

// A value to oneself: the table alone.
void Both(Step& step, const Settings& settings) {
  const Tensor value = Tensor::Copy(std::string(static_cast<size_t>(settings.bytes), 'x'));
  const Clock::time_point begin = Clock::now();
  for (int round = 0; round < settings.rounds; ++round) {
    Check(step.Send("value", 0, value));
    Check(step.Recv("value", 0, kWait).status());
  }
  const double us = MicrosecondsSince(begin);
  std::printf("{\"bytes\": %lld, \"p50_us\": %.3f}\n", static_cast<long long>(settings.bytes),
              us / settings.rounds);
}

int Main(int argc, char** argv) {
  Settings settings;
  CLI::App app("One of the two processes of the comparison; see bench/rendezvous/run.py");
  std::string job = "pair";
  double pause_us = 0;
  bool alone = false;
  bool stream = false;
  app.add_option("--address", settings.address)->required();
  app.add_option("--job", job);
  app.add_option("--index", settings.index);
  app.add_option("--bytes", settings.bytes);
  app.add_option("--rounds", settings.rounds);
  app.add_option("--pause-us", pause_us);
  app.add_flag("!--private", settings.arena);
  app.add_flag("--into", settings.into);
  app.add_flag("!--tcp", settings.shared);
  app.add_flag("--cma", settings.read);
  app.add_flag("--huge", settings.huge);
  app.add_flag("--stream", stream);
  app.add_flag("--alone", alone);
  CLI11_PARSE(app, argc, argv);
  if (stream) settings.ahead = kAheadInStream;
  settings.pause = absl::Microseconds(pause_us);

  auto member = Join({.address = settings.address,
                      .job = job,
                      .index = settings.index,
                      .size = alone ? 1 : 2,
                      .timeout = absl::Seconds(30)});
  Check(member.status());
  auto rendezvous = Rendezvous::Open(**member, {.shared_memory = settings.shared && !settings.read,
                                                .process_memory = settings.read});
  Check(rendezvous.status());
  auto step = (*rendezvous)->OpenStep(0);
  Check(step.status());
  if (alone) {
    Both(*step, settings);
  } else if (settings.index == 0) {
    Produce(**rendezvous, *step, settings);
  } else {
    Consume(*step, settings);
  }
  step->Close();
  return 0;
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) { return lockstep::bench::Main(argc, argv); }
