// The whole matrix: each role, each request, its own job, another one and all.
#include "lockstep/platform/link/rights.h"

#include <string>
#include <type_traits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/base/type_name.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/error_reply.h"
#include "lockstep/wire/native/kinds.h"
#include "lockstep/wire/native/role_names.h"

namespace lockstep::link {
namespace {

using ::testing::HasSubstr;
using wire::native::NamedRole;
using wire::native::RequestKind;
using wire::native::Requests;
using wire::native::Role;

template <class Message>
std::string Named(const std::string& job) {
  Message message;
  // Where it may be left out, nothing says that a request is about all jobs.
  constexpr bool kOptional = requires { message.job.has_value(); };
  if constexpr (requires { message.job; }) {
    if (!kOptional || !job.empty()) message.job = job;
  }
  return wire::native::Encode(message);
}

struct Asked {
  std::string name;
  RequestKind kind = 0;
  bool names_job = false;
  std::string about_own;
  std::string about_another;
  std::string about_all;
};

template <class... Messages>
void Add(Requests<Messages...>, std::vector<Asked>& all) {
  (all.push_back({.name = std::string(TypeName<Messages>()),
                  .kind = wire::native::KindOf<Messages>::kKind,
                  .names_job = requires(Messages message) { message.job;
}
, .about_own = Named<Messages>("own"), .about_another = Named<Messages>("another"),
  .about_all = Named<Messages>("")
}  // namespace
),
   ...);
}  // namespace lockstep::link

// Those of a server. A data worker's own go by the same table, and name no job.
std::vector<Asked> Everything() {
  std::vector<Asked> all;
  Add(wire::native::ServerRequests(), all);
  Add(wire::native::LaunchersRequests(), all);
  Add(wire::native::SessionRequests(), all);
  Add(wire::native::StockRequests(), all);
  Add(wire::native::DispatcherRequests(), all);
  Add(wire::native::WorkerRequests(), all);
  return all;
}

bool May(Role role, const std::string& job, RequestKind kind, const std::string& payload) {
  const absl::Status status = CheckRights({.role = role, .job = job}, kind, payload);
  if (!status.ok()) {
    EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
    EXPECT_EQ(wire::native::ReasonOf(status), "not_permitted");
  }
  return status.ok();
}

// What the contract says, written down a second time: who changes a right changes it here, too.
TEST(Rights, AreThese) {
  std::vector<std::string> lines;
  for (const Asked& asked : Everything()) {
    std::vector<std::string> may;
    for (const NamedRole& role : wire::native::kNamedRoles) {
      if (May(role.role, "", asked.kind, asked.about_all)) may.push_back(role.name);
    }
    lines.push_back(
        absl::StrCat(asked.name, asked.names_job ? "(job)" : "", ": ", absl::StrJoin(may, " ")));
  }
  std::sort(lines.begin(), lines.end());
  EXPECT_EQ(absl::StrJoin(lines, "\n"),
            "AgreeOnIndex: task launch operator\n"
            "AnswerHold: task launch operator\n"
            "Barrier: task launch operator\n"
            "CancelBarrier: task launch operator\n"
            "CloseConsumer: task launch operator\n"
            "CloseSession: task launch operator\n"
            "CompareAndSetKey: task launch operator\n"
            "ConsumerPoll: task launch operator\n"
            "CreateJob(job): launch operator\n"
            "CreateTaskToken(job): launch operator\n"
            "DataStatus: observe task launch worker operator\n"
            "DeleteJob(job): operator\n"
            "DeleteKey: task launch operator\n"
            "FetchAnswer: launch operator\n"
            "GetAliveMembers: task launch operator\n"
            "GetDataset: task launch worker operator\n"
            "GetKey: task launch operator\n"
            "GetKeys: task launch operator\n"
            "IncrementKey: task launch operator\n"
            "JoinHosts: launch operator\n"
            "JoinJob: task launch operator\n"
            "LeaveJob: task launch operator\n"
            "ListBarriers: task launch operator\n"
            "ListKeys: task launch operator\n"
            "MaxKey: task launch operator\n"
            "NotifyPreemption: task launch operator\n"
            "OpenIteration: task launch operator\n"
            "OpenSession(job): task launch operator\n"
            "OpenStore(job): launch operator\n"
            "OpenTunnel(job): launch operator\n"
            "PollForError: task launch operator\n"
            "PollNodeGroup(job): launch operator\n"
            "ProcessReport(job): launch operator\n"
            "ReadSegment: task launch operator\n"
            "RegisterDataset: task launch operator\n"
            "ReportError: task launch operator\n"
            "ReportProgress: task launch operator\n"
            "ReportSave: task launch operator\n"
            "SetKey: task launch operator\n"
            "ShareMemory: task launch operator\n"
            "StatusRequest(job): observe task launch worker operator\n"
            "StockCall: launch operator\n"
            "TellNodeGroup(job): launch operator\n"
            "TorchCommand: launch operator\n"
            "WatchEvents(job): observe task launch operator\n"
            "WatchJob: task launch operator\n"
            "WatchKeys: task launch operator\n"
            "WatchPreemption: task launch operator\n"
            "WorkerPoll: worker operator");
}

TEST(Rights, OfOneJobAreOfNoOther) {
  for (const Asked& asked : Everything()) {
    for (const NamedRole& role : wire::native::kNamedRoles) {
      const bool may = May(role.role, "", asked.kind, asked.about_all);
      const std::string what = absl::StrCat(asked.name, " of a ", role.name);
      EXPECT_EQ(May(role.role, "own", asked.kind, asked.about_own), may) << what;
      const bool elsewhere = may && !asked.names_job;
      EXPECT_EQ(May(role.role, "own", asked.kind, asked.about_another), elsewhere) << what;
      EXPECT_EQ(May(role.role, "own", asked.kind, asked.about_all), elsewhere) << what;
    }
  }
}

TEST(Rights, OfWhatThereIsNotAreTheOperatorsAlone) {
  for (const RequestKind kind : {0u, 27u, 69u, 72u, 1'000'000u}) {
    for (const NamedRole& role : wire::native::kNamedRoles) {
      EXPECT_EQ(May(role.role, "", kind, ""), role.role == Role::kOperate) << kind;
    }
    EXPECT_FALSE(May(Role::kUnspecified, "", kind, ""));
  }
}

TEST(Rights, AMessageThatCannotBeReadIsAboutNoJob) {
  const absl::Status status =
      CheckRights({.role = Role::kOperate, .job = "own"},
                  wire::native::KindOf<wire::native::DeleteJob>::kKind, "\xff\xff\xff");
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
}

TEST(Rights, WhatIsRefusedIsExplained) {
  const auto error = [](const Rights& rights, const std::string& job) {
    return std::string(CheckRights(rights, wire::native::KindOf<wire::native::OpenSession>::kKind,
                                   Named<wire::native::OpenSession>(job))
                           .message());
  };
  EXPECT_THAT(error({.role = Role::kObserve}, "own"),
              HasSubstr("the role observe may not make the request OpenSession, which needs the "
                        "role task or launch or operator: "));
  EXPECT_THAT(error({.role = Role::kTask, .job = "own"}, "another"),
              HasSubstr("for job 'own' alone, not for 'another'"));
  EXPECT_THAT(error({.role = Role::kTask, .job = "own"}, ""), HasSubstr("name it"));
}

}  // namespace
}  // namespace lockstep::link
