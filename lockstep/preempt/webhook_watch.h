// Listens at a loopback address for programs on this host that know of a preemption.
#pragma once

#include <memory>
#include <string>

#include "lockstep/platform/runtime/address.h"
#include "lockstep/preempt/watched_source.h"

namespace lockstep::preempt {

struct WebhookOptions {
  // A number of the loopback interface; port 0: the system chooses, and `detail` has it then.
  runtime::Address at = {.host = "127.0.0.1"};
  std::string token;  // empty: everybody on this host may
};
std::unique_ptr<Watch> MakeWebhookWatch(WebhookOptions options);

}  // namespace lockstep::preempt
