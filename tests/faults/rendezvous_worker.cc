// A member of a job that does what it is told, a line at a time, and answers each with a line:
// "ok ...", or "error CODE REASON TEXT". For tests that kill, stop and confine it.
//
//   arm POINT:TIMES:kill          as runtime::ArmFaultPoint
//   forbid CALL | descriptors MAX | memory MORE_BYTES     as confine.h
//   join ADDRESS INDEX            a member of "digits"
//   open [network] [arena=BYTES]  its rendezvous
//   step STEP | close STEP | abort STEP TEXT
//   send STEP KEY TO NUMBER BYTES [acked]    the value with that content (content.h)
//   recv STEP KEY FROM NUMBER BYTES [into]   it must have that content; it is kept
//   timeout MS                    of what follows; 20 s at first
//   drop                          what was received
//   transports                    ok MEMBER=TRANSPORT(why_not_shared) ...
//   stats                         ok NAME=NUMBER ...
//   stress ADDRESS INDEX network|memory      see stress.h
//
// It ends with its input, or with who started it.
#include <signal.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "lockstep/client/member.h"
#include "lockstep/client/rendezvous.h"
#include "lockstep/platform/runtime/fault_point.h"
#include "tests/faults/confine.h"
#include "tests/faults/content.h"
#include "tests/faults/look.h"
#include "tests/faults/own_resources.h"
#include "tests/faults/stress.h"

namespace lockstep::faults {
namespace {

constexpr absl::Duration kJoinTimeout = absl::Minutes(1);

int64_t Number(const std::string& text) {
  int64_t number = 0;
  return absl::SimpleAtoi(text, &number) ? number : -1;
}

class Worker {
 public:
  using Words = std::vector<std::string>;
  using Answer = absl::StatusOr<std::string>;

  Answer Do(const Words& words) {
    const std::string& what = words[0];
    if (what == "arm") return Ok(runtime::ArmFaultPoint(words.at(1)));
    if (what == "forbid") return Ok(Forbid(words.at(1)));
    if (what == "descriptors") return Ok(LimitDescriptors(Unsigned(words.at(1))));
    if (what == "memory") return Ok(LimitMemory(Unsigned(words.at(1))));
    if (what == "join") return DoJoin(words);
    if (what == "open") return DoOpen(words);
    if (what == "step") return DoStep(Number(words.at(1)));
    if (what == "close") return steps_.at(Number(words.at(1))).Close(), "";
    if (what == "abort") return Ok(At(words).Abort(absl::DataLossError(words.at(2))));
    if (what == "send") return DoSend(words);
    if (what == "recv") return DoReceive(words);
    if (what == "timeout") return timeout_ = absl::Milliseconds(Number(words.at(1))), "";
    if (what == "drop") return kept_.clear(), "";
    if (what == "transports") return Transports();
    if (what == "stats") return Stats();
    if (what == "stress") {
      StressedMember(words.at(1), static_cast<int32_t>(Number(words.at(2))),
                     words.at(3) == "memory")
          .Run();
    }
    return absl::InvalidArgumentError(absl::StrCat("what is ", what, "?"));
  }

 private:
  static Answer Ok(const absl::Status& status) {
    if (!status.ok()) return status;
    return "";
  }
  static uint64_t Unsigned(const std::string& text) { return static_cast<uint64_t>(Number(text)); }
  static bool Has(const Words& words, const std::string& word) {
    return std::find(words.begin(), words.end(), word) != words.end();
  }
  Step& At(const Words& words) { return steps_.at(Number(words.at(1))); }

  Answer DoJoin(const Words& words) {
    auto member = Join({.address = words.at(1),
                        .job = "digits",
                        .index = static_cast<int32_t>(Number(words.at(2))),
                        .timeout = kJoinTimeout});
    if (!member.ok()) return member.status();
    member_ = *std::move(member);
    return member_->name();
  }

  Answer DoOpen(const Words& words) {
    RendezvousOptions options = {.shared_memory = !Has(words, "network"),
                                 .process_memory = !Has(words, "network")};
    for (const std::string& word : words) {
      if (word.starts_with("arena=")) options.arena_bytes_max = Unsigned(word.substr(6));
    }
    auto rendezvous = Rendezvous::Open(*member_, options);
    if (!rendezvous.ok()) return rendezvous.status();
    rendezvous_ = *std::move(rendezvous);
    return "";
  }

  Answer DoStep(int64_t number) {
    auto step = rendezvous_->OpenStep(number);
    if (!step.ok()) return step.status();
    steps_.insert_or_assign(number, *std::move(step));
    return "";
  }

  Answer DoSend(const Words& words) {
    const Tensor value = Tensor::Copy(
        MakeContent(Number(words.at(1)), words.at(2), Number(words.at(4)), Unsigned(words.at(5))));
    const auto to = static_cast<int32_t>(Number(words.at(3)));
    if (!Has(words, "acked")) return Ok(At(words).Send(words.at(2), to, value));
    return Ok(At(words).SendAcked(words.at(2), to, value, {.timeout = timeout_}));
  }

  Answer DoReceive(const Words& words) {
    const auto from = static_cast<int32_t>(Number(words.at(3)));
    const size_t bytes = Unsigned(words.at(5));
    std::string_view text;
    std::string into;
    if (Has(words, "into")) {
      into.resize(bytes);
      const std::span<char> room(into);
      const absl::Status status = At(words).RecvInto(
          words.at(2), from, std::as_writable_bytes(room), {.timeout = timeout_});
      if (!status.ok()) return status;
      text = into;
    } else {
      auto received = At(words).Recv(words.at(2), from, {.timeout = timeout_});
      if (!received.ok()) return received.status();
      kept_.push_back(received->tensor);
      text = kept_.back().text();
    }
    if (text.size() != bytes ||
        !IsContent(text, Number(words.at(1)), words.at(2), Number(words.at(4)))) {
      return absl::DataLossError(absl::StrCat("torn: ", text.size(), " bytes"));
    }
    return "";
  }

  Answer Transports() {
    std::vector<std::string> all;
    for (const PeerTransport& each : rendezvous_->Transports()) {
      all.push_back(absl::StrCat(each.member, "=", each.transport, "(", each.why_not_shared, ")"));
    }
    return absl::StrJoin(all, " ");
  }

  Answer Stats() {
    const auto report = Look(*member_, absl::StrCat(member_->name(), " ", ++looks_), timeout_);
    if (!report.ok()) return report.status();
    int64_t lent = 0;
    for (const auto& peer : report->peers) lent += peer.lent;
    // Who waits for what nobody here has sent: STEP/NAME/PEER.
    std::string wanted;
    for (const auto& key : report->wanted) {
      absl::StrAppend(&wanted, " wanted/", key.step, "/", key.name, "/", key.peer, "=", key.count);
    }
    return absl::StrCat("arena=", report->arena_used_bytes, " held=", report->held_values,
                        " lent=", lent, " waits=", report->waits, wanted,
                        " fds=", OpenDescriptors(), " maps=", MappingsOfSharedMemory());
  }

  absl::Duration timeout_ = absl::Seconds(20);
  int looks_ = 0;
  std::unique_ptr<Member> member_;
  std::unique_ptr<Rendezvous> rendezvous_;
  std::map<int64_t, Step> steps_;
  std::vector<Tensor> kept_;
};

void Serve() {
  Worker worker;
  for (std::string line; std::getline(std::cin, line);) {
    const Worker::Answer answer = worker.Do(absl::StrSplit(line, ' '));
    const std::string text =
        answer.ok() ? absl::StrCat("ok ", *answer)
                    : absl::StrCat("error ", absl::StatusCodeToString(answer.status().code()), " ",
                                   ReasonOf(answer.status()), " ", answer.status().message());
    std::puts(absl::StrReplaceAll(text, {{"\n", " "}}).c_str());
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace lockstep::faults

int main() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  lockstep::faults::Serve();
  return 0;
}
