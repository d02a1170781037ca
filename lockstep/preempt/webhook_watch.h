// Listens at a loopback address for programs on this host that know of a preemption.
#pragma once

#include <memory>
#include <string>

#include "lockstep/preempt/watched_source.h"

namespace lockstep::preempt {

struct WebhookOptions {
  std::string host = "127.0.0.1";  // a number of the loopback interface
  int port = 0;                    // 0: the system chooses; `detail` has it then
  std::string token;               // empty: everybody on this host may
};
std::unique_ptr<Watch> MakeWebhookWatch(WebhookOptions options);

}  // namespace lockstep::preempt
