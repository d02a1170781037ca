// Works in steps, saves when the job is preempted, and goes on from there when it is started again.
//
//   lockstep run -n 4 --on-preempt restart -- build/release/examples/preempted_member FOLDER
//
// and then, elsewhere: `lockstep preempt --job job --in 30s`, or SIGTERM to one of the four.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "lockstep/client/host_notices.h"
#include "lockstep/client/member.h"
#include "lockstep/client/preemption.h"

int main(int argc, char** argv) {
  const auto me = lockstep::Join();
  if (!me.ok()) {
    std::fprintf(stderr, "%s\n", me.status().ToString().c_str());
    return 1;
  }
  const std::string folder = argc > 1 ? argv[1] : ".";
  const std::string checkpoint = folder + "/member-" + std::to_string((*me)->member());
  int64_t step = 0;
  if (std::ifstream(checkpoint) >> step) ++step;

  const auto preemption = lockstep::Preemption::Open(**me);
  const auto notices = lockstep::HostNotices::Start(**me, {.sources = {"auto", "signal"}});
  if (!notices.ok()) std::fprintf(stderr, "%s\n", notices.status().ToString().c_str());
  std::printf("begins at step %lld\n", static_cast<long long>(step));
  for (; step < 100'000; ++step) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // a step's work
    if (!preemption->Reached(step)) continue;
    std::ofstream(checkpoint) << step << std::flush;
    preemption->Saved(step, checkpoint);
    std::printf("saved at step %lld\n", static_cast<long long>(step));
    if (!preemption->notice().withdrawn) break;
  }
  preemption->Finish();
  return (*me)->Leave().ok() ? 0 : 1;
}
