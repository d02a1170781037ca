// The smallest member: joins its job, waits for the others, shares a value. Start two of them:
//
//   lockstep serve --job hello=2 &
//   LOCKSTEP_JOB=hello hello_member & LOCKSTEP_JOB=hello hello_member
#include <iostream>

#include "lockstep/client/member.h"

int main() {
  const auto fail = [](const absl::Status& why) {
    std::cerr << why.message() << "\n";
    return 1;
  };
  auto me = lockstep::Join();
  if (!me.ok()) return fail(me.status());
  const auto ports = (*me)->Gather("port", std::to_string(4711 + (*me)->member()));
  if (!ports.ok()) return fail(ports.status());
  if ((*me)->member() == 0) static_cast<void>((*me)->keys().Set("config/lr", "0.1"));
  const auto rate = (*me)->keys().Wait("config/lr");
  if (!rate.ok()) return fail(rate.status());
  std::cout << (*me)->name() << " of " << ports->size() << ": rate " << rate->value << "\n";
  const absl::Status left = (*me)->Leave();
  return left.ok() ? 0 : fail(left);
}
