// Finds a job on a server that runs already.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lockstep/base/ids.h"
#include "lockstep/launch/environment.h"
#include "lockstep/wire/native/status_messages.h"

namespace lockstep::cli {

// Stands for an address that is not known yet, where people are shown what would be done.
inline constexpr char kAddressNotKnown[] = "HOST:PORT";

struct FoundJob {
  launch::JobAddress address;
  int32_t size = 0;
  // The number of the last attempt that somebody came into, as a member or at its store.
  int64_t attempt_before = 0;
  // Whose processes run already, as another launcher told: "task/0 (host7:4711)".
  std::vector<std::string> running;
  // The server does not have it; the addresses behind the link are not known.
  bool missing = false;
};

// What is done about a job that the server does not have.
enum class IfMissing {
  kMake,
  kSuppose,  // nothing is changed there: what is found is what would be made
};

// What is said of a job that somebody else seems to run: two runs of one job disturb each other,
// and the server knows only the processes of the last. Empty: nobody does. Pure.
std::string RunsAlreadyText(const FoundJob& job);

// Chooses from what the server at `coordinator` told. `server`: HOST:PORT of that one, since
// `coordinator` may name several. `job` empty: the only one there is. `processes` zero: as many as
// the job has. Pure. The error says what there is instead.
absl::StatusOr<FoundJob> ChooseJob(const wire::native::StatusReply& reply,
                                   const std::string& coordinator, const std::string& server,
                                   const std::string& job, int32_t processes);

// The member whose error the others of the current attempt followed from; nothing when there is
// none or it is about no member. Pure.
std::optional<MemberIndex> RootCauseIn(const wire::native::JobStatus& job);

// The job's status; nothing when the server does not answer in that time, or has no such job.
std::optional<wire::native::JobStatus> StatusOf(const std::string& coordinator,
                                                const std::string& job, absl::Duration timeout,
                                                const std::string& who);

// What is wrong when the processes' environment says (JAX_ENABLE_RECOVERABILITY) whether the job is
// to be recoverable, and it is otherwise. Empty: nothing. Pure.
std::string RecoverabilityText(const std::string& job, bool is, bool wanted);

// Whether the job, which is there with that size, is recoverable. Nothing: it has roles.
absl::StatusOr<std::optional<bool>> IsRecoverable(const launch::JobAddress& address, int32_t size);

// Asks the server, and chooses. Waits a few seconds at most.
absl::StatusOr<FoundJob> LookUpJob(const std::string& coordinator, const std::string& job,
                                   int32_t processes);

// The address of the store of an attempt, which begins with that; empty: the server has no stores.
// Tries again while the server is away, until `interrupted`. FAILED_PRECONDITION: a later attempt
// has begun.
absl::StatusOr<std::string> OpenStoreOf(const launch::JobAddress& address, int64_t attempt,
                                        const std::function<bool()>& interrupted);

// Likewise of a job that several launchers run. `size`: of one that is made, and what one that is
// there has to have at least. `recoverable`: one that is made is.
absl::StatusOr<FoundJob> LookUpJobOfNodes(const std::string& coordinator, const std::string& job,
                                          int32_t size, bool recoverable, IfMissing if_missing);

}  // namespace lockstep::cli
