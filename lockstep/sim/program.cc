#include "lockstep/sim/program.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace lockstep::sim {
namespace {

// An exchange costs the square of its members.
constexpr size_t kExchangersMax = 12;

// At least one, in order.
std::vector<MemberIndex> DrawMembers(Random& random, int32_t size) {
  std::vector<MemberIndex> members;
  const int percent = static_cast<int>(random.Between(20, 90));
  for (int32_t i = 0; i < size; ++i) {
    if (random.Percent(percent)) members.emplace_back(i);
  }
  if (members.empty()) members.emplace_back(random.Index(size));
  return members;
}

std::vector<MemberIndex> Everybody(int32_t size) {
  std::vector<MemberIndex> members;
  for (int32_t i = 0; i < size; ++i) members.emplace_back(i);
  return members;
}

Operation::Kind DrawKind(Random& random) {
  using Kind = Operation::Kind;
  static const std::vector<Kind> kinds = {
      Kind::kSleep,    Kind::kSleep,    Kind::kBarrier,   Kind::kBarrier, Kind::kBarrier,
      Kind::kExchange, Kind::kExchange, Kind::kBroadcast, Kind::kCount,   Kind::kAlive};
  return random.Pick(kinds);
}

}  // namespace

std::vector<Operation> DrawProgram(Random& random, int32_t size, int operations,
                                   absl::Duration timeout) {
  // An id belongs to one list for as long as the job lives.
  const std::vector<MemberIndex> some = DrawMembers(random, size);
  const std::vector<MemberIndex> all = Everybody(size);
  // The list is in the id, since a recoverable job keeps its barriers when another program comes.
  const std::string some_name = absl::StrJoin(
      some, "-", [](std::string* out, MemberIndex m) { absl::StrAppend(out, m.value()); });
  std::vector<Operation> program;
  for (int i = 0; i < operations; ++i) {
    Operation operation{.kind = DrawKind(random), .duration = timeout};
    operation.everybody = random.Percent(50);
    operation.members = operation.everybody ? all : DrawMembers(random, size);
    switch (operation.kind) {
      case Operation::Kind::kSleep:
        operation.duration = random.Between(absl::ZeroDuration(), absl::Seconds(2));
        break;
      case Operation::Kind::kBarrier:
        operation.name =
            absl::StrCat(operation.everybody ? "all" : some_name, "/", random.Index(2));
        if (!operation.everybody) operation.members = some;
        break;
      case Operation::Kind::kCount:
        // Names of its own: in a recoverable job keys outlive the processes that set them.
        operation.name = absl::StrCat("count", i);
        break;
      case Operation::Kind::kExchange:
        if (operation.members.size() > kExchangersMax) operation.members.resize(kExchangersMax);
        [[fallthrough]];
      default:
        operation.name = absl::StrCat("op", i);
    }
    program.push_back(std::move(operation));
  }
  return program;
}

}  // namespace lockstep::sim
