// The subcommands beside `status`, against servers that say what the test wants to hear.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/cli/command_testing.h"
#include "lockstep/cli/run_options.h"
#include "lockstep/platform/config/reference_testing.h"
#include "lockstep/wire/native/coordination_messages.h"
#include "lockstep/wire/native/error_reply.h"
#include "lockstep/wire/native/job_messages.h"
#include "nlohmann/json.hpp"

namespace lockstep::cli {
namespace {

using link::testing::TestServer;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace wire::native;  // NOLINT: the messages are what this file is about

// Answers requests of one kind with `function`, and opens any session of job "digits".
template <class RequestMessage>
link::Server::Handler Answering(
    std::function<
        absl::StatusOr<typename link::KindOf<RequestMessage>::Reply>(const RequestMessage&)>
        function) {
  return [function](const link::Request& request, link::Responder responder) {
    if (request.kind == link::KindOf<OpenSession>::kKind) {
      const auto open = Decode<OpenSession>(request.payload);
      ASSERT_TRUE(open.ok());
      EXPECT_EQ(open->session.data.size(), 16u);
      if (open->job != "digits") {
        return responder.Fail(WithReason(absl::NotFoundError("no such job"), "unknown_job"));
      }
      return responder.Answer(Encode(OpenSessionReply{.size = 4}));
    }
    ASSERT_EQ(request.kind, link::KindOf<RequestMessage>::kKind);
    const auto message = Decode<RequestMessage>(request.payload);
    ASSERT_TRUE(message.ok()) << message.status();
    const auto reply = function(*message);
    if (!reply.ok()) return responder.Fail(reply.status());
    responder.Answer(Encode(*reply));
  };
}

TEST(JobCommands, PrintWhatTheStatusOfTheJobSays) {
  TestServer server(ServeStatus());
  EXPECT_THAT(RunCommand(server, {"why", "digits"}).out, HasSubstr("all is well"));
  EXPECT_EQ(RunCommand(server, {"why", "digits"}).code, kExitOk);
  EXPECT_EQ(RunCommand(server, {"why", "broken"}).code, kExitFailed);
  EXPECT_EQ(RunCommand(server, {"why", "x"}).code, kExitNotFound);
  EXPECT_EQ(RunCommand(server, {"why"}).code, kExitUsage);
  EXPECT_THAT(RunCommand(server, {"members", "digits"}).out, HasSubstr("task/0#1"));
  EXPECT_THAT(RunCommand(server, {"barriers", "digits"}).out, HasSubstr("no open barriers"));
  EXPECT_THAT(RunCommand(server, {"jobs"}).out, HasSubstr("broken"));
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"why", "digits", "-o", "json"},
        {"members", "digits", "-o", "json"},
        {"barriers", "digits", "-o", "json"},
        {"jobs", "-o", "json"}}) {
    EXPECT_TRUE(nlohmann::json::accept(RunCommand(server, words).out)) << words.front();
  }
}

TEST(Job, IsCreatedWithASizeOrRoles) {
  std::optional<CreateJob> asked;
  TestServer server(
      Answering<CreateJob>([&](const CreateJob& request) -> absl::StatusOr<CreateJobReply> {
        asked = request;
        return CreateJobReply{.created = true, .grpc = "h:1"};
      }));
  const Ran ran = RunCommand(server, {"job", "create", "digits=4", "--recoverable"});
  EXPECT_EQ(ran.code, kExitOk) << ran.err;
  EXPECT_EQ(ran.out, "job digits created; stock clients: h:1\n");
  EXPECT_EQ(asked, (CreateJob{.job = "digits", .size = 4, .recoverable = true}));
  EXPECT_EQ(RunCommand(server, {"job", "create", "d=worker:2,ps:1", "-o", "json"}).code, kExitOk);
  EXPECT_EQ(asked, (CreateJob{.job = "d", .size = 3, .roles = {{"worker", 2}, {"ps", 1}}}));
  for (const char* wrong : {"digits", "=4", "d=x", "d=a:b"}) {
    EXPECT_EQ(RunCommand(server, {"job", "create", wrong}).code, kExitUsage) << wrong;
  }
}

TEST(Job, IsDeleted) {
  std::optional<DeleteJob> asked;
  TestServer server(
      Answering<DeleteJob>([&](const DeleteJob& request) -> absl::StatusOr<DeleteJobReply> {
        asked = request;
        if (!request.force) return absl::FailedPreconditionError("members are connected");
        return DeleteJobReply{};
      }));
  EXPECT_EQ(RunCommand(server, {"job", "delete", "digits"}).code, kExitFailed);
  EXPECT_EQ(RunCommand(server, {"job", "delete", "digits", "--force"}).out, "job digits deleted\n");
  EXPECT_EQ(asked->job, "digits");
  const Ran old = RunCommand(server, {"job", "delete", "digits", "--running-too"});
  EXPECT_EQ(old.code, kExitUsage);
  EXPECT_THAT(old.err, HasSubstr("--running-too is now --force"));
}

TEST(Kv, GetsAValueAsItIs) {
  TestServer server(Answering<GetKey>([](const GetKey& request) -> absl::StatusOr<GetKeyReply> {
    EXPECT_EQ(request.key, "lr");
    if (!request.wait) return absl::NotFoundError("no such key");
    return GetKeyReply{.entry = {.key = "lr", .value = {"0.1"}, .revision = 3}};
  }));
  EXPECT_EQ(RunCommand(server, {"kv", "get", "digits", "lr"}).code, kExitNotFound);
  EXPECT_EQ(RunCommand(server, {"kv", "get", "digits", "lr", "--wait", "5s"}).out, "0.1\n");
  EXPECT_EQ(RunCommand(server, {"kv", "get", "other", "lr"}).code, kExitNotFound);
  EXPECT_EQ(RunCommand(server, {"kv", "get", "digits", "lr", "--wait", "5"}).code, kExitUsage);
  const Ran json = RunCommand(server, {"kv", "get", "digits", "lr", "--wait", "5s", "-o", "json"});
  EXPECT_EQ(nlohmann::json::parse(json.out)["revision"], 3);
}

TEST(Kv, SetsAndDeletes) {
  std::optional<SetKey> asked;
  TestServer setting(Answering<SetKey>([&](const SetKey& request) -> absl::StatusOr<SetKeyReply> {
    asked = request;
    return SetKeyReply{.revision = 9};
  }));
  EXPECT_EQ(RunCommand(setting, {"kv", "set", "digits", "lr", "0.2", "--ttl", "2s"}).out,
            "revision 9\n");
  EXPECT_EQ(*asked, (SetKey{.key = "lr", .value = {"0.2"}, .overwrite = true, .ttl_us = 2000000}));
  RunCommand(setting, {"kv", "set", "digits", "lr", "0.2", "--new"});
  EXPECT_FALSE(asked->overwrite);
  TestServer deleting(
      Answering<DeleteKey>([](const DeleteKey& request) -> absl::StatusOr<DeleteKeyReply> {
        EXPECT_TRUE(request.below);
        return DeleteKeyReply{.deleted = 2, .revision = 10};
      }));
  EXPECT_EQ(RunCommand(deleting, {"kv", "delete", "digits", "lr", "--below"}).out, "2 deleted\n");
}

TEST(Kv, ListsPageAfterPage) {
  std::vector<std::string> afters;
  TestServer server(Answering<ListKeys>([&](const ListKeys& request) {
    afters.push_back(request.after);
    EXPECT_EQ(request.directory, "config");
    ListKeysReply reply;
    reply.more = request.after.empty();
    reply.entries = {{.key = reply.more ? "config/a" : "config/b", .value = {"1"}}};
    return absl::StatusOr<ListKeysReply>(reply);
  }));
  const Ran ran = RunCommand(server, {"kv", "list", "digits", "config"});
  EXPECT_THAT(ran.out, HasSubstr("config/a"));
  EXPECT_THAT(ran.out, HasSubstr("config/b"));
  EXPECT_THAT(afters, ElementsAre("", "config/a"));
}

TEST(Kv, WatchesUntilTheServerSaysNo) {
  TestServer server(Answering<WatchKeys>([](const WatchKeys& request) {
    if (request.after == 0) {
      return absl::StatusOr<WatchKeysReply>(
          WatchKeysReply{.changes = {{.key = "a", .value = Bytes{"1"}, .revision = 4},
                                     {.key = "b", .revision = 5}},
                         .revision = 5});
    }
    EXPECT_EQ(request.after, 5);
    return absl::StatusOr<WatchKeysReply>(absl::AbortedError("the job was deleted"));
  }));
  const Ran ran = RunCommand(server, {"kv", "watch", "digits"});
  EXPECT_EQ(ran.out, "4  set  a  1\n5  deleted  b\n");
  EXPECT_EQ(ran.code, kExitFailed);
}

TEST(Kv, AWatchTellsWhatIsGoneWithAnAttempt) {
  TestServer server(Answering<WatchKeys>([](const WatchKeys& request) {
    using Reply = absl::StatusOr<WatchKeysReply>;
    if (request.after == 0) {
      return Reply(WatchKeysReply{.changes = {{.key = "a", .value = Bytes{"1"}, .revision = 4},
                                              {.key = "b", .value = Bytes{"1"}, .revision = 5}},
                                  .revision = 5,
                                  .snapshot = true});
    }
    if (request.after == 5) {
      return Reply(WatchKeysReply{.changes = {{.key = "b", .value = Bytes{"2"}, .revision = 8}},
                                  .revision = 9,
                                  .snapshot = true});
    }
    return Reply(absl::AbortedError("enough"));
  }));
  const Ran ran = RunCommand(server, {"kv", "watch", "digits"});
  EXPECT_EQ(ran.out, "4  set  a  1\n5  set  b  1\n9  deleted  a\n8  set  b  2\n");
}

TEST(Kv, AWatchGoesOnWhenTheServerComesBack) {
  std::vector<int64_t> afters;
  TestServer server(
      Answering<WatchKeys>([&](const WatchKeys& request) -> absl::StatusOr<WatchKeysReply> {
        afters.push_back(request.after);
        switch (afters.size()) {
          case 1:
            return WatchKeysReply{.changes = {{.key = "a", .value = Bytes{"1"}, .revision = 4}},
                                  .revision = 4,
                                  .snapshot = true};
          case 2:
            return absl::UnavailableError("going away");
          case 3:
            return WithReason(absl::CancelledError("stopped"), "service_stopped");
          case 4:
            return WatchKeysReply{.changes = {{.key = "a", .revision = 5}}, .revision = 5};
          default:
            return absl::AbortedError("the job was deleted");
        }
      }));
  const Ran ran = RunCommand(server, {"kv", "watch", "digits"});
  EXPECT_EQ(ran.out, "4  set  a  1\n5  deleted  a\n");
  EXPECT_THAT(afters, ElementsAre(0, 4, 4, 4, 5));
  EXPECT_THAT(ran.err, HasSubstr("going away; reconnecting, for up to 1m"));
  EXPECT_THAT(ran.err, HasSubstr("the server is back"));
  EXPECT_EQ(ran.code, kExitFailed);
}

TEST(Kv, AWaitGoesOnWhenTheServerComesBack) {
  int asked = 0;
  TestServer server(Answering<GetKey>([&](const GetKey&) -> absl::StatusOr<GetKeyReply> {
    if (++asked == 1) return absl::UnavailableError("going away");
    return GetKeyReply{.entry = {.key = "lr", .value = {"0.1"}, .revision = 3}};
  }));
  const Ran ran = RunCommand(server, {"kv", "get", "digits", "lr", "--wait", "1h"});
  EXPECT_EQ(ran.code, kExitOk);
  EXPECT_EQ(ran.out, "0.1\n");
  EXPECT_THAT(ran.err, HasSubstr("reconnecting"));
  // What does not wait fails at once.
  asked = 0;
  EXPECT_EQ(RunCommand(server, {"kv", "get", "digits", "lr"}).code, kExitUnavailable);
}

TEST(Kv, SaysWhatIsWrongWithItsArguments) {
  for (const char* wrong : {"-1s", "0s"}) {
    const Ran wait = RunWith({}, {"kv", "get", "digits", "lr", "--wait", wrong});
    EXPECT_EQ(wait.code, kExitUsage);
    EXPECT_THAT(wait.err, HasSubstr("must be above zero"));
    EXPECT_THAT(RunWith({}, {"kv", "set", "digits", "lr", "1", "--ttl", wrong}).err,
                HasSubstr("must be above zero"));
  }
  EXPECT_THAT(RunWith({}, {"kv", "get", "digits", "lr", "--wait", "5"}).err,
              HasSubstr("not a duration such as 5s"));
  const Ran bytes = RunWith({}, {"kv", "set", "digits", "\xff", "1"});
  EXPECT_EQ(bytes.code, kExitUsage);
  EXPECT_THAT(bytes.err, HasSubstr("is not UTF-8"));
}

WatchEventsReply Events(uint64_t log, std::vector<int64_t> sequences) {
  WatchEventsReply reply{.log = log};
  for (const int64_t sequence : sequences) {
    reply.events.push_back({.sequence = sequence,
                            .kind = EventKind::kNotice,
                            .severity = EventSeverity::kInfo,
                            .text = "event " + std::to_string(sequence)});
    reply.next_after = sequence;
  }
  return reply;
}

TEST(Events, PrintsWhatThereIs) {
  TestServer server(Answering<WatchEvents>([](const WatchEvents& request) {
    EXPECT_EQ(request.job, "digits");
    EXPECT_FALSE(request.wait);
    WatchEventsReply reply = Events(7, {3, 4});
    reply.forgotten = 2;
    return absl::StatusOr<WatchEventsReply>(reply);
  }));
  const Ran ran = RunCommand(server, {"events", "digits"});
  EXPECT_EQ(ran.code, kExitOk);
  EXPECT_THAT(ran.out, HasSubstr("event 3\n"));
  EXPECT_THAT(ran.out, HasSubstr("event 4\n"));
  EXPECT_THAT(ran.err, HasSubstr("2 older events are no longer stored"));
}

TEST(Events, FollowsThroughARestart) {
  std::vector<WatchEvents> asked;
  TestServer server(
      Answering<WatchEvents>([&](const WatchEvents& request) -> absl::StatusOr<WatchEventsReply> {
        asked.push_back(request);
        switch (asked.size()) {
          case 1:
            return Events(7, {1, 2});
          case 2:
            return absl::UnavailableError("going away");
          case 3:
            return Events(8, {1});
          default:
            return absl::NotFoundError("the job was deleted");
        }
      }));
  const Ran ran = RunCommand(server, {"events", "digits", "--follow"});
  EXPECT_EQ(ran.code, kExitNotFound);
  ASSERT_EQ(asked.size(), 4u);
  EXPECT_FALSE(asked[0].wait);
  EXPECT_TRUE(asked[1].wait);
  EXPECT_EQ(asked[1].after, 2);
  EXPECT_EQ(asked[2].log, 7u) << "the server tells by it that it has another log";
  EXPECT_EQ(asked[3].after, 1);
  EXPECT_THAT(ran.err, HasSubstr("trying again"));
  EXPECT_THAT(ran.err, HasSubstr("the server was restarted"));
}

TEST(Words, ThatNameNoSubcommandAreNamed) {
  const Ran ran = RunWith({}, {"stauts", "digits"});
  EXPECT_EQ(ran.code, kExitUsage);
  EXPECT_EQ(ran.err, "lockstep: unknown command 'stauts'; `lockstep --help` lists the commands\n");
  EXPECT_THAT(RunWith({}, {"kv", "put", "digits"}).err,
              HasSubstr("lockstep kv: unknown command 'put'"));
  EXPECT_THAT(RunWith({}, {}).err, HasSubstr("subcommand is required"));
  EXPECT_EQ(RunWith({}, {"tell-processes", "digits"}).err,
            "lockstep: tell-processes is now report-processes\n");
  EXPECT_EQ(RunWith({}, {"job", "create"}).err,
            "lockstep job create: job is required; see `lockstep job create --help`\n");
  EXPECT_EQ(RunWith({}, {"--help"}).code, kExitOk);
  EXPECT_EQ(RunWith({}, {"kv", "--help"}).code, kExitOk);
  for (const char* flag : {"-h", "--help", "--help-all"}) {
    const Ran help = RunWith({}, {"status", flag});
    EXPECT_EQ(help.code, kExitOk);
    EXPECT_THAT(help.out, HasSubstr("--coordinator ADDRESS")) << flag;
  }
}

TEST(Config, ShowsTheOptionsOfTheCommands) {
  const Ran client = RunWith({{"LOCKSTEP_COORDINATOR", "h:1"}}, {"config", "show", "client"});
  EXPECT_THAT(client.out, HasSubstr("coordinator  h:1"));
  EXPECT_THAT(client.out, HasSubstr("environment LOCKSTEP_COORDINATOR"));
  const Ran run = RunWith({}, {"config", "show", "run", "-o", "json", "--grace", "3s"});
  EXPECT_EQ(run.code, kExitOk) << run.err;
  EXPECT_EQ(nlohmann::json::parse(run.out)["run"]["grace"]["origin"], "flag");
  const Ran worker = RunWith({}, {"config", "show", "worker", "--cache-bytes", "1MiB"});
  EXPECT_EQ(worker.code, kExitOk) << worker.err;
  EXPECT_THAT(worker.out, HasSubstr("cache_bytes"));
  EXPECT_THAT(worker.out, HasSubstr("flag --cache-bytes"));
  EXPECT_EQ(RunWith({}, {"config", "show", "nonsense"}).code, kExitUsage);
}

// LOCKSTEP_UPDATE_GOLDEN=1 writes them there.
TEST(Config, TheReferenceHasEveryOption) {
  CLI::App app;
  DeclaredRun run;
  run.table.AddTo(*app.add_subcommand("run"));
  config::ExpectReference(LOCKSTEP_CLI_DOCUMENT, run.table);
  ClientOptions client;
  client.table.AddTo(*app.add_subcommand("client"));
  config::ExpectReference(LOCKSTEP_CLI_DOCUMENT, client.table);
}

}  // namespace
}  // namespace lockstep::cli
