#include "lockstep/cli/server_calls.h"

#include <utility>

namespace lockstep::cli {

void ServerCalls::Start(Kind kind, std::function<Then()> call) {
  std::thread& thread = threads_[kind];
  if (thread.joinable()) thread.join();
  thread = std::thread([this, call = std::move(call)] {
    if (Then then = call(); then != nullptr) loop_.Post(std::move(then));
  });
}

void ServerCalls::Stop() {
  stopping_ = true;
  for (auto& [kind, thread] : threads_) {
    if (thread.joinable()) thread.join();
  }
}

}  // namespace lockstep::cli
