#include "lockstep/launch/server_loss.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace lockstep::launch {
namespace {

// In what processes say that fail by a server that is gone: of Python, torch, JAX, and ours.
constexpr std::string_view kWordsOfConnections[] = {
    "ConnectionError",   "ConnectionResetError", "ConnectionRefusedError", "ConnectionAbortedError",
    "BrokenPipeError",   "DistNetworkError",     "DistStoreError",         "DistBackendError",
    "UNAVAILABLE",       "Unavailable",          "DEADLINE_EXCEEDED",      "Broken pipe",
    "Connection closed", "Connection reset",     "Connection refused",     "oordination service"};

bool SpeaksOfConnections(std::string_view error) {
  return std::any_of(std::begin(kWordsOfConnections), std::end(kWordsOfConnections),
                     [error](std::string_view word) { return error.find(word) != error.npos; });
}

}  // namespace

void ServerLoss::End(Time now, const std::string& what, const ExitStatus& ending) {
  loss_ = {now, std::nullopt};
  ended_ = true;
  text_ = absl::StrCat(what, " ", Describe(ending), " although nobody asked it to");
}

void ServerLoss::Lose(Time now, const std::string& why) {
  if (ended_) return;
  loss_ = {now, std::nullopt};
  text_ = absl::StrCat("the connection to the coordinator's server broke: ", why);
}

void ServerLoss::Find(Time now) {
  if (loss_ && !ended_) loss_->found = now;
}

void ServerLoss::BeginAttempt() {
  if (!ended_) loss_.reset();
}

bool ServerLoss::Explains(Time now, std::string_view error) const {
  if (!loss_ || now - loss_->at > explains_) return false;
  if (!error.empty()) return SpeaksOfConnections(error);
  return !loss_->found || now - *loss_->found < survived_;
}

}  // namespace lockstep::launch
