#include "lockstep/client/job.h"

#include "lockstep/client/job_watch.h"

namespace lockstep {

JobWatch::JobWatch(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
JobWatch::~JobWatch() { impl_->Stop(); }
absl::StatusOr<JobChange> JobWatch::Next(CallOptions options) { return impl_->Next(options); }
Pending JobWatch::NextAsync(CallOptions options, Completion<JobChange> done) {
  return impl_->NextAsync(options, std::move(done));
}
void JobWatch::Stop() { impl_->Stop(); }

JobChange JobWatch::Impl::ToChange(wire::native::WatchJobReply reply) {
  JobChange change = {.version = reply.version,
                      .snapshot = reply.snapshot,
                      .attempt = reply.attempt,
                      .state = std::string(wire::native::NameOf(reply.state))};
  for (wire::native::MemberStatus& member : reply.members) {
    change.members.push_back({.member = member.index,
                              .name = std::move(member.name),
                              .condition = std::string(wire::native::NameOf(member.condition)),
                              .why = std::move(member.why),
                              .host = std::move(member.host),
                              .pid = member.pid,
                              .peer = std::move(member.peer),
                              .step = member.step,
                              .phase = std::move(member.phase),
                              .doing = std::move(member.doing)});
  }
  for (wire::native::ErrorStatus& error : reply.errors) {
    change.errors.push_back(
        {.status = wire::native::ToStatus(
             {.code = error.code, .reason = error.reason, .message = error.message}),
         .origin = std::move(error.origin),
         .consequence = error.consequence,
         .attempt = error.attempt});
  }
  return change;
}

}  // namespace lockstep
