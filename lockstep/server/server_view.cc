#include "lockstep/server/server_view.h"

#include <map>
#include <utility>

#include "lockstep/wire/native/codec.h"

namespace lockstep::server {

absl::Status ServerView::DecodeStatus() {
  auto decoded = wire::native::Decode<wire::native::StatusReply>(*encoded_status);
  if (!decoded.ok()) return decoded.status();
  status = *std::move(decoded);
  encoded_status = nullptr;
  if (encoded_data != nullptr) {
    auto of_data = wire::native::Decode<wire::native::DataStatusReply>(*encoded_data);
    if (!of_data.ok()) return of_data.status();
    data.status = *std::move(of_data);
    encoded_data = nullptr;
  }
  std::map<std::string, JobCounts> by_name;
  for (JobCounts& one : counts) by_name.emplace(one.job, std::move(one));
  counts.clear();
  // A job that came or went between the two looks has counted nothing.
  for (const wire::native::JobStatus& job : status.jobs) counts.push_back(by_name[job.job]);
  return absl::OkStatus();
}

}  // namespace lockstep::server
