#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "lockstep/preempt/local_watches.h"

namespace lockstep::preempt {
namespace {

// The wall clock may be set meanwhile, and then the limit is nearer or farther.
constexpr absl::Duration kInterval = absl::Minutes(1);
// A job without a limit has one in a hundred years.
constexpr absl::Duration kLongest = absl::Hours(24 * 366);

std::string ValueOf(const std::map<std::string, std::string>& environment, const char* name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

class SlurmWatch final : public Watch {
 public:
  SlurmWatch(SlurmOptions options, std::string job, std::string end)
      : options_(options), job_(std::move(job)), end_(std::move(end)) {}

  absl::Status Open() override {
    if (end_.empty()) {
      return absl::FailedPreconditionError(
          "SLURM_JOB_END_TIME is not set: this is no job of Slurm's, or one of a version that does "
          "not tell the end (before 22.05)");
    }
    if (!absl::SimpleAtoi(end_, &seconds_)) {
      return absl::InvalidArgumentError("SLURM_JOB_END_TIME is no Unix time");
    }
    return absl::OkStatus();
  }

  Sight Look(Clock clock, int /*interrupt*/) override {
    const Now now = clock();
    Sight sight{.notices = std::vector<Notice>{}, .next = kInterval};
    const absl::Time end = absl::FromUnixSeconds(seconds_) - options_.margin;
    if (end - now.wall > kLongest) return sight;
    sight.notices->push_back(
        {.id = Presentable(absl::StrCat("job-", job_, "-end-", end_)),
         .kind = NoticeKind::kTimeLimit,
         .death = SteadyAt(now, end),
         .text = Presentable(absl::StrCat("Slurm job ", job_, " reaches its time limit"))});
    return sight;
  }

  std::string detail() const override { return "SLURM_JOB_END_TIME"; }

 private:
  const SlurmOptions options_;
  const std::string job_;
  const std::string end_;
  int64_t seconds_ = 0;
};

}  // namespace

std::unique_ptr<Watch> MakeSlurmWatch(SlurmOptions options,
                                      const std::map<std::string, std::string>& environment) {
  return std::make_unique<SlurmWatch>(options, ValueOf(environment, "SLURM_JOB_ID"),
                                      ValueOf(environment, "SLURM_JOB_END_TIME"));
}

}  // namespace lockstep::preempt
