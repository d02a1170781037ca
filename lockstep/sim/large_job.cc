#include "lockstep/sim/large_job.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "lockstep/coord/coordinator.h"
#include "lockstep/sim/random.h"
#include "lockstep/sim/schedule.h"

namespace lockstep::sim {
namespace {

coord::CoordinatorOptions OptionsFor(const LargeJobOptions& large) {
  const auto members = static_cast<size_t>(large.members);
  coord::CoordinatorOptions options{.size = large.members, .incarnation_seed = large.seed};
  options.sessions_max = members;
  options.waits_max = 3 * members;
  options.keys_max = 2 * members;
  options.wait_bytes_max = members * 1024;
  return options;
}

class LargeJob {
 public:
  explicit LargeJob(const LargeJobOptions& options)
      : options_(options), random_(options.seed), coordinator_(OptionsFor(options)) {
    const int32_t hosts = (options.members - 1) / options.members_a_host + 1;
    for (int32_t i = 0; i < hosts; ++i) {
      host_delays_.push_back(random_.Between(options.delay_min, options.delay_max) / 2);
    }
    for (int32_t i = 0; i < hosts; ++i) {
      Tell(coord::OpenSession{.call = NewCall(0), .session = AgentOf(i)});
    }
    answered_ = 0;
  }

  LargeJobResult Run() {
    Register();
    Poll();
    Exchange();
    for (int i = 0; i < options_.barriers && result_.failure.empty(); ++i) Meet(i);
    MissSome();
    LoseAHost();
    return std::move(result_);
  }

 private:
  static SessionId AgentOf(int32_t host) {
    return {.high = 1, .low = static_cast<uint64_t>(host) + 1};
  }
  int32_t HostOf(int32_t member) const { return member / options_.members_a_host; }
  CallId NewCall(int32_t member) {
    askers_.push_back(member);
    return CallId(askers_.size());
  }
  coord::Caller CallerOf(int32_t member) {
    return {.call = NewCall(member),
            .service = coordinator_.service_incarnation(),
            .incarnation = Incarnation(static_cast<uint64_t>(member) + 1),
            .number = ++number_,
            .agent = AgentOf(HostOf(member))};
  }
  absl::Duration DelayOf(int32_t member) {
    return host_delays_[static_cast<size_t>(HostOf(member))] +
           random_.Between(options_.delay_min, options_.delay_max) / 2;
  }
  double ProcessorTime() const { return options_.processor_time ? options_.processor_time() : 0; }
  void Fail(std::string why) {
    if (result_.failure.empty()) result_.failure = std::move(why);
  }

  // The member asks, `after` now; the event is made when it has reached the server.
  void Ask(int32_t member, absl::Duration after, std::function<coord::Event()> make) {
    const absl::Duration at = after + DelayOf(member);
    last_asked_ = std::max(last_asked_, schedule_.now() + after);
    schedule_.After(at, [this, make = std::move(make)] { Tell(make()); });
  }
  void Tell(coord::Event event) {
    const double began = ProcessorTime();
    const coord::Effects effects = coordinator_.Handle(schedule_.now(), std::move(event));
    phase_.longest_event_s = std::max(phase_.longest_event_s, ProcessorTime() - began);
    for (const coord::Reply& reply : effects.replies) Answer(reply);
  }
  void Answer(const coord::Reply& reply) {
    int32_t& asker = askers_[reply.call.value() - 1];
    if (asker < 0) return Fail("once: a call was answered twice");
    const int32_t member = std::exchange(asker, -1);
    ++answered_;
    last_answered_ = std::max(last_answered_, schedule_.now() + DelayOf(member));
    if (check_) check_(member, reply);
  }

  // Ends when so many calls were answered.
  void Phase(const std::string& name, int64_t answers, const std::function<void()>& ask) {
    if (!result_.failure.empty()) return;
    phase_ = {.name = name};
    answered_ = 0;
    const Time began = last_asked_ = last_answered_ = schedule_.now();
    const double processor = ProcessorTime();
    ask();
    while (schedule_.RunNext(began + absl::Minutes(10)) && result_.failure.empty()) {
      if (answered_ == answers) break;
    }
    if (answered_ != answers) Fail(absl::StrCat(name, ": ", answered_, " answers, not ", answers));
    phase_.first_to_last = last_answered_ - began;
    phase_.last_to_last = last_answered_ - last_asked_;
    phase_.processor_s = ProcessorTime() - processor;
    phase_.answers = answered_;
    result_.phases.push_back(phase_);
    check_ = nullptr;
    // What is on its way arrives.
    schedule_.RunNext(last_answered_);
  }
  void ForAll(const std::function<void(int32_t)>& ask) {
    for (int32_t member = 0; member < options_.members; ++member) ask(member);
  }
  // What each member is told has to be no error.
  void ExpectSuccess() {
    check_ = [this](int32_t member, const coord::Reply& reply) {
      if (reply.error) Fail(absl::StrCat("task/", member, " was told: ", reply.error->message));
    };
  }

  void Register() {
    ExpectSuccess();
    Phase("register", options_.members, [this] {
      ForAll([this](int32_t member) {
        Ask(member, random_.Between(absl::ZeroDuration(), options_.starts_within), [this, member] {
          return coord::RegisterMember{.call = NewCall(member),
                                       .member = MemberIndex(member),
                                       .incarnation = Incarnation(uint64_t(member) + 1),
                                       .agent = AgentOf(HostOf(member))};
        });
      });
    });
  }

  void Poll() {
    Phase("poll for errors", 0, [this] {
      ForAll([this](int32_t member) {
        Tell(coord::PollForError{.caller = CallerOf(member), .member = MemberIndex(member)});
      });
    });
    const coord::CoordinatorMemory memory = coordinator_.Memory();
    result_.bytes_a_member = static_cast<double>(memory.keys + memory.others) / options_.members;
  }

  // As JAX exchanges its topology: each sets its own, one reads all and sets the whole.
  void Exchange() {
    ExpectSuccess();
    Phase("set own key", options_.members, [this] {
      ForAll([this](int32_t member) {
        Ask(member, absl::ZeroDuration(), [this, member] {
          return coord::SetKey{
              .caller = CallerOf(member), .key = absl::StrCat("local/", member), .value = "here"};
        });
      });
    });
    ExpectSuccess();
    Phase("read all keys", options_.members, [this] {
      ForAll([this](int32_t member) {
        Ask(0, absl::ZeroDuration(), [this, member] {
          return coord::GetKey{.caller = CallerOf(0), .key = absl::StrCat("local/", member)};
        });
      });
    });
    check_ = [this](int32_t, const coord::Reply& reply) {
      const auto* read = std::get_if<coord::KeyRead>(&reply.answer);
      if (reply.error || (read != nullptr && *read->entry.value != "all")) {
        Fail("a member read another value");
      }
    };
    Phase("one value to all", options_.members + 1, [this] {
      ForAll([this](int32_t member) {
        Ask(member, absl::ZeroDuration(),
            [this, member] { return coord::GetKey{.caller = CallerOf(member), .key = "global"}; });
      });
      Ask(0, 2 * options_.delay_max,
          [this] { return coord::SetKey{.caller = CallerOf(0), .key = "global", .value = "all"}; });
    });
  }

  coord::Event Arrival(int32_t member, int round) {
    ++arrived_;
    return coord::ArriveAtBarrier{.caller = CallerOf(member),
                                  .member = MemberIndex(member),
                                  .id = absl::StrCat("step/", round),
                                  .counter = 0,
                                  .timeout = absl::Minutes(1)};
  }

  void Meet(int round) {
    arrived_ = 0;
    check_ = [this](int32_t member, const coord::Reply& reply) {
      if (reply.error) return Fail(absl::StrCat("barrier: ", reply.error->message));
      if (arrived_ == options_.members) return;
      Fail(absl::StrCat("task/", member, " passed when ", arrived_, " had come"));
    };
    Phase(absl::StrCat("barrier ", round), options_.members, [this, round] {
      ForAll([this, round](int32_t member) {
        Ask(member, absl::ZeroDuration(), [this, member, round] { return Arrival(member, round); });
      });
    });
  }

  void MissSome() {
    const int32_t missing = std::min(options_.missing, options_.members - 1);
    check_ = [this](int32_t, const coord::Reply& reply) {
      if (!reply.error) return Fail("a barrier without all passed");
      result_.missing_text = reply.error->message;
    };
    Phase(absl::StrCat("barrier that misses ", missing), options_.members - missing,
          [this, missing] {
            for (int32_t member = missing; member < options_.members; ++member) {
              Ask(member, absl::ZeroDuration(), [this, member] { return Arrival(member, -1); });
            }
            schedule_.After(absl::Minutes(1) + options_.delay_max,
                            [this] { Tell(coord::DeadlineReached{}); });
          });
  }

  void LoseAHost() {
    check_ = [this](int32_t, const coord::Reply& reply) {
      if (!reply.error) return Fail("a poll was answered without an error");
      if (result_.lost_text.empty()) result_.lost_text = reply.error->message;
    };
    // The polls of those who were there are answered as well.
    Phase("tell all of a lost host", options_.members, [this] {
      schedule_.After(DelayOf(0), [this] {
        Tell(coord::HostLost{
            .agent = AgentOf(0), .host = "h0", .unheard = absl::Milliseconds(3100)});
      });
    });
  }

  const LargeJobOptions options_;
  Random random_;
  Schedule schedule_;
  coord::Coordinator coordinator_;
  std::vector<absl::Duration> host_delays_;
  std::vector<int32_t> askers_;  // by call; -1: it was answered
  uint64_t number_ = 0;
  std::function<void(int32_t member, const coord::Reply&)> check_;
  LargeJobPhase phase_;
  int64_t answered_ = 0;
  int64_t arrived_ = 0;
  Time last_asked_;
  Time last_answered_;
  LargeJobResult result_;
};

}  // namespace

LargeJobResult RunLargeJob(const LargeJobOptions& options) { return LargeJob(options).Run(); }

}  // namespace lockstep::sim
