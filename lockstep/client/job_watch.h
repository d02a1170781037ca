// What is behind JobWatch, for those who make one.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "lockstep/client/job.h"
#include "lockstep/client/watch.h"
#include "lockstep/wire/native/coordination_messages.h"

namespace lockstep {

class JobWatch::Impl : public client::Watch<JobChange> {
 public:
  explicit Impl(std::weak_ptr<client::Engine> engine)
      : Watch(
            std::move(engine), 0,
            [](int64_t after, absl::Duration timeout) {
              return client::MakeTyped<JobChange>(wire::native::WatchJob{.after = after},
                                                  client::CallType::kWatch, timeout,
                                                  "a change of the job", ToChange);
            },
            [](const JobChange& change) { return change.version; }) {}

  // States and conditions as text, errors as statuses with their reasons.
  static JobChange ToChange(wire::native::WatchJobReply reply);
};

}  // namespace lockstep
