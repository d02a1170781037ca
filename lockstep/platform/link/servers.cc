#include "lockstep/platform/link/servers.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"

namespace lockstep::link {

absl::StatusOr<std::shared_ptr<Servers>> Servers::Read(const std::string& given) {
  auto list = runtime::ReadServerList(given);
  if (!list.ok()) return list.status();
  const bool is_file = runtime::IsServerFile(given);
  std::string text = is_file ? given : runtime::ToString(*list);
  return std::shared_ptr<Servers>(
      new Servers(is_file ? given : "", std::move(text), *std::move(list)));
}

std::shared_ptr<Servers> Servers::Of(const runtime::Address& address) {
  return std::shared_ptr<Servers>(
      new Servers("", runtime::ToString(address), {.addresses = {address}, .job = {}}));
}

Servers::Servers(std::string file, std::string text, runtime::ServerList list)
    : file_(std::move(file)),
      text_(std::move(text)),
      job_(std::move(list.job)),
      addresses_(std::move(list.addresses)) {
  LOCKSTEP_CHECK(!addresses_.empty());
  leader_ = addresses_.front();
}

absl::StatusOr<std::vector<runtime::Address>> Servers::Order() {
  std::vector<runtime::Address> anew;
  if (!file_.empty()) {
    auto list = runtime::ReadServerList(file_);
    if (!list.ok()) {
      return absl::UnavailableError(absl::StrCat("the list of servers cannot be used: ",
                                                 std::string(list.status().message())));
    }
    anew = std::move(list->addresses);
  }
  const MutexLock lock(mutex_);
  if (!anew.empty()) addresses_ = std::move(anew);
  std::vector<runtime::Address> order = addresses_;
  const auto last = std::find(order.begin(), order.end(), leader_);
  if (last != order.end()) std::rotate(order.begin(), last, last + 1);
  return order;
}

std::vector<runtime::Address> Servers::addresses() const {
  const MutexLock lock(mutex_);
  return addresses_;
}

runtime::Address Servers::leader() const {
  const MutexLock lock(mutex_);
  return leader_;
}

uint64_t Servers::epoch() const {
  const MutexLock lock(mutex_);
  return epoch_;
}

void Servers::Led(const runtime::Address& address, uint64_t epoch) {
  const MutexLock lock(mutex_);
  leader_ = address;
  epoch_ = std::max(epoch_, epoch);
}

}  // namespace lockstep::link
