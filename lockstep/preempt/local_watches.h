// Sources within this host that need no protocol: a file, a command, the scheduler's variables.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "lockstep/preempt/watched_source.h"

namespace lockstep::preempt {

struct FileOptions {
  std::string path;
  absl::Duration interval = absl::Seconds(1);  // between looks at the file
};
// The file exists: a notice, whose content says more (payload.h). It is gone: withdrawn. A duration
// counts from when this content was first seen.
std::unique_ptr<Watch> MakeFileWatch(FileOptions options);

struct CommandOptions {
  std::string command;                            // for /bin/sh
  absl::Duration interval = absl::Seconds(5);     // from one run's end to the next run
  absl::Duration time_limit = absl::Seconds(10);  // of one run, which is killed then
};
// Exit code 0 and nothing written: none. 0 and a payload on stdout: that. Any other exit code: a
// notice, with the payload if there is one. A command that cannot be found (126, 127), that a
// signal ended, or that does not end in time has told nothing.
std::unique_ptr<Watch> MakeCommandWatch(CommandOptions options);

struct SlurmOptions {
  absl::Duration margin;  // before the limit
};
// The job's limit of wall time, SLURM_JOB_END_TIME.
std::unique_ptr<Watch> MakeSlurmWatch(SlurmOptions options,
                                      const std::map<std::string, std::string>& environment);

}  // namespace lockstep::preempt
