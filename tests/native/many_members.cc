// One process of many members: it joins, then waits at barriers and writes when each release came,
// as nanoseconds of the monotonic clock, and when member 0 arrived (else 0). Member 0 is the last:
// it arrives when all others are known to wait, since what a member asks is taken in order, and
// each counts itself after it arrived. In the end the process writes when each of them was told of
// an error, and how many KiB it needed. client_server_test.cc runs it.
//
//   many_members ADDRESS SIZE FROM COUNT BARRIERS
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lockstep/client/member.h"
#include "lockstep/platform/link/testing.h"
#include "lockstep/platform/runtime/loop.h"

namespace lockstep {
namespace {

using link::testing::Seen;

// How the process ends if it does not end well.
enum Failure { kBadWords = 11, kNotJoined, kNotWritten, kNeverTheLast };

bool Write(const std::vector<int64_t>& values) {
  const size_t bytes = values.size() * sizeof(int64_t);
  return ::write(STDOUT_FILENO, values.data(), bytes) == static_cast<ssize_t>(bytes);
}

// Ends the process: all its members at once, while nobody waits any more.
[[noreturn]] void RunMembers(const std::string& address, int32_t size, int32_t from, int32_t count,
                             int barriers) {
  const auto members_count = static_cast<size_t>(count);
  std::vector<std::unique_ptr<Member>> members(members_count);
  Seen<int> joined;
  Seen<int64_t> told;
  for (int32_t i = 0; i < count; ++i) {
    JoinAsync({.address = address, .job = "digits", .index = from + i}, [&, i](auto member) {
      if (!member.ok()) std::cerr << "member " << from + i << ": " << member.status() << std::endl;
      if (member.ok()) members[static_cast<size_t>(i)] = *std::move(member);
      joined.Add(member.ok() ? 1 : 0);
    });
  }
  for (int ok : joined.WaitForCount(members_count)) {
    if (ok == 0) ::_exit(kNotJoined);
  }
  for (const auto& member : members) {
    member->OnError([&](const auto&) { told.Add(runtime::MonotonicNow().nanoseconds()); });
  }
  for (int barrier = 0; barrier < barriers; ++barrier) {
    Seen<int64_t> released;
    const std::string arrived_key = absl::StrCat("arrived/", barrier);
    const std::string go_key = absl::StrCat("go/", barrier);
    int64_t arrived = 0;
    const auto arrive = [&](Member& member) {
      member.BarrierAsync("b", {}, [&](const auto& values) {
        released.Add(values.ok() ? runtime::MonotonicNow().nanoseconds() : -1);
      });
    };
    for (const auto& member : members) {
      if (member->member() == 0) continue;
      arrive(*member);
      member->keys().IncrementAsync(arrived_key, 1, {}, [&, keys = member->keys()](const auto& n) {
        if (n.ok() && *n == size - 1) keys.SetAsync(go_key, "", {}, [](const auto&) {});
      });
    }
    if (from == 0) {
      if (!members[0]->keys().Wait(go_key).ok()) ::_exit(kNeverTheLast);
      arrived = runtime::MonotonicNow().nanoseconds();
      arrive(*members[0]);
    }
    std::vector<int64_t> times = released.WaitForCount(members_count);
    times.push_back(arrived);
    if (!Write(times)) ::_exit(kNotWritten);
  }
  if (!Write(told.WaitForCount(members_count))) ::_exit(kNotWritten);
  struct rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  if (!Write({usage.ru_maxrss})) ::_exit(kNotWritten);
  ::_exit(0);
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  if (argc != 6) return lockstep::kBadWords;
  lockstep::RunMembers(argv[1], std::atoi(argv[2]), std::atoi(argv[3]), std::atoi(argv[4]),
                       std::atoi(argv[5]));
}
