// A server that ends, and one that goes on from its directory.
#include "lockstep/server/saved_state.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "asio/io_context.hpp"
#include "asio/ip/tcp.hpp"
#include "gmock/gmock.h"
#include "grpcpp/create_channel.h"
#include "gtest/gtest.h"
#include "lockstep/platform/journal/sqlite_journal.h"
#include "lockstep/platform/link/client.h"
#include "lockstep/platform/runtime/address.h"
#include "lockstep/server/server.h"
#include "lockstep/wire/native/error_reply.h"
#include "lockstep/wire/native/node_group_messages.h"
#include "lockstep/wire/store/data_entry.h"
#include "lockstep/wire/store/entry.h"
#include "lockstep/wire/store/records_messages.h"
#include "lockstep/wire/store/torch_entry.h"
#include "proto/compat/xla/coordination_service.grpc.pb.h"

namespace lockstep::server {
namespace {

namespace pb = ::xla::coordination;
using ::testing::AllOf;
using ::testing::HasSubstr;
using wire::native::CreateJob;
using wire::native::DeleteJob;
using wire::native::StatusReply;
using wire::native::StatusRequest;

constexpr absl::Duration kPatience = absl::Seconds(60);

class SavedStateTest : public ::testing::Test {
 protected:
  SavedStateTest() {
    char path[] = "/tmp/lockstep-saved-XXXXXX";
    directory_ = mkdtemp(path);
  }
  ~SavedStateTest() override {
    End();
    std::filesystem::remove_all(directory_);
  }

  ServerOptions Options(std::vector<JobOptions> jobs) const {
    ServerOptions options;
    options.listen = {.host = "127.0.0.1", .port = 0};
    options.jobs = std::move(jobs);
    options.state_directory = directory_;
    return options;
  }
  void Serve(std::vector<JobOptions> jobs = {}) {
    auto server = Server::Listen(Options(std::move(jobs)));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    runner_ = std::thread([this] { EXPECT_TRUE(server_->Run().ok()); });
  }
  void End() {
    if (!runner_.joinable()) return;
    server_->Drain();
    runner_.join();
    server_.reset();
  }
  std::string WhyNot(std::vector<JobOptions> jobs) const {
    auto server = Server::Listen(Options(std::move(jobs)));
    return server.ok() ? "served" : std::string(server.status().message());
  }

  std::unique_ptr<link::Client> Native() {
    auto client = link::Client::Connect(server_->listen_address(), kPatience, {});
    EXPECT_TRUE(client.ok()) << client.status();
    return *std::move(client);
  }
  std::vector<std::string> Jobs() {
    std::vector<std::string> jobs;
    const auto reply = Native()->Call(StatusRequest{}, kPatience);
    EXPECT_TRUE(reply.ok()) << reply.status();
    for (const auto& job : reply->jobs) {
      jobs.push_back(absl::StrCat(job.job, " of ", job.size, " at ", job.grpc));
    }
    return jobs;
  }
  std::unique_ptr<pb::CoordinationService::Stub> Stock(const std::string& job) {
    return pb::CoordinationService::NewStub(grpc::CreateChannel(
        server_->FindJob(job)->grpc_address(), grpc::InsecureChannelCredentials()));
  }

  std::string directory_;
  std::unique_ptr<Server> server_;
  std::thread runner_;
};

TEST_F(SavedStateTest, AMemberGoesOnWithItsKeysAtTheSameAddress) {
  Serve({{.name = "digits", .size = 1}});
  const std::string address = server_->FindJob("digits")->grpc_address();
  uint64_t service = 0;
  {
    auto stub = Stock("digits");
    pb::RegisterTaskRequest request;
    request.set_incarnation(100);
    pb::RegisterTaskResponse response;
    grpc::ClientContext registering;
    ASSERT_TRUE(stub->RegisterTask(&registering, request, &response).ok());
    service = response.service_incarnation();
    pb::InsertKeyValueRequest insert;
    insert.mutable_incarnations()->set_service_incarnation(service);
    insert.mutable_kv()->set_key("k");
    insert.mutable_kv()->set_value(std::string("v\0\xFF", 3));
    pb::InsertKeyValueResponse inserted;
    grpc::ClientContext inserting;
    ASSERT_TRUE(stub->InsertKeyValue(&inserting, insert, &inserted).ok());
  }
  End();
  Serve({{.name = "digits", .size = 1}});
  EXPECT_EQ(server_->FindJob("digits")->grpc_address(), address);
  // Under the service incarnation that it has: it does not register again.
  pb::TryGetKeyValueRequest get;
  get.mutable_incarnations()->set_service_incarnation(service);
  get.set_key("k");
  pb::TryGetKeyValueResponse got;
  grpc::ClientContext getting;
  const grpc::Status status = Stock("digits")->TryGetKeyValue(&getting, get, &got);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(got.kv().value(), std::string("v\0\xFF", 3));
}

TEST_F(SavedStateTest, JobsThatClientsMadeAreThereAndDeletedOnesAreNot) {
  Serve({{.name = "first", .size = 2}});
  auto native = Native();
  ASSERT_TRUE(native->Call(CreateJob{.job = "kept", .size = 3}, kPatience).ok());
  ASSERT_TRUE(native->Call(CreateJob{.job = "deleted", .size = 3}, kPatience).ok());
  ASSERT_TRUE(native->Call(DeleteJob{.job = "deleted"}, kPatience).ok());
  native.reset();
  const std::vector<std::string> before = Jobs();
  ASSERT_EQ(before.size(), 2u);
  End();
  Serve();  // not even named
  EXPECT_EQ(Jobs(), before);
  // And can be made again.
  EXPECT_TRUE(Native()->Call(CreateJob{.job = "deleted", .size = 4}, kPatience).ok());
  End();
  Serve();
  EXPECT_EQ(Jobs().size(), 3u);
}

TEST_F(SavedStateTest, AJobIsNotTakenForAnother) {
  Serve({{.name = "digits", .size = 4}});
  End();
  EXPECT_THAT(WhyNot({{.name = "digits", .size = 5}}),
              AllOf(HasSubstr("--job digits"), HasSubstr("has this job as 4")));
}

TEST_F(SavedStateTest, Finding02_NobodyMakesANamedJobAnotherOneSoThatNoServerStarts) {
  Serve({{.name = "digits", .size = 4}});
  ASSERT_TRUE(Native()->Call(DeleteJob{.job = "digits"}, kPatience).ok());
  const absl::Status refused =
      Native()->Call(CreateJob{.job = "digits", .size = 5}, kPatience).status();
  EXPECT_EQ(wire::native::ReasonOf(refused), "job_exists") << refused;
  EXPECT_TRUE(Native()->Call(CreateJob{.job = "digits", .size = 4}, kPatience).ok());
  End();
  Serve({{.name = "digits", .size = 4}});
}

TEST_F(SavedStateTest, TheDirectoryHasOneServer) {
  Serve();
  EXPECT_THAT(WhyNot({}), AllOf(HasSubstr("--state: "), HasSubstr("in use by another server"),
                                HasSubstr(absl::StrCat("process ", getpid()))));
}

TEST_F(SavedStateTest, DamageIsNotServed) {
  Serve({{.name = "digits", .size = 4}});
  End();
  std::ofstream(directory_ + "/journal.db", std::ios::binary | std::ios::trunc);
  EXPECT_THAT(WhyNot({}), AllOf(HasSubstr("journal.db"), HasSubstr("The server did not start")));
}

// Entries as a server of before would have written them.
void WriteEntries(const std::string& directory, const std::vector<std::string>& entries) {
  auto journal = journal::SqliteJournal::Open({.directory = directory});
  ASSERT_TRUE(journal.ok()) << journal.status();
  ASSERT_TRUE((*journal)->Replay([](std::string_view) { return absl::OkStatus(); }).ok());
  ASSERT_TRUE((*journal)->Start([](uint64_t) {}, [](const absl::Status&) {}).ok());
  for (const std::string& entry : entries) (*journal)->Append(entry);
  ASSERT_TRUE((*journal)->Close().ok());
}

std::string EntryOf(const std::string& job, const std::vector<coord::Record>& records) {
  std::string entry = journal::NewEntry();
  wire::store::EncodeRecords(job, absl::Now(), records, entry);
  return entry;
}

class SetAsideTest : public SavedStateTest {
 protected:
  // `sick` has records that no server can use; `well` has nothing to do with it.
  void MakeSick(const std::vector<std::string>& entries) {
    Serve({{.name = "sick", .size = 2}, {.name = "well", .size = 3}});
    End();
    WriteEntries(directory_, entries);
  }
  void MakeSick() {
    MakeSick({EntryOf("sick", {coord::record::AttemptBegan{INT64_MAX, ServiceIncarnation(1)}}),
              EntryOf("sick", {coord::record::AttemptBegan{0, ServiceIncarnation(2)}})});
  }
  StatusReply Status() {
    const auto reply = Native()->Call(StatusRequest{}, kPatience);
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply.ok() ? *reply : StatusReply{};
  }
  template <class Request>
  void ExpectRefused(const Request& request) {
    const absl::Status status = Native()->Call(request, kPatience).status();
    EXPECT_EQ(wire::native::ReasonOf(status), "job_set_aside") << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("lockstep job delete sick"));
  }
  void ExpectSetAside(const std::string& why) {
    const StatusReply status = Status();
    ASSERT_EQ(status.set_aside.size(), 1u);
    EXPECT_EQ(status.set_aside[0].job, "sick");
    EXPECT_THAT(status.set_aside[0].why, HasSubstr(why));
    EXPECT_GT(status.set_aside[0].kept_bytes, 0u);
    ASSERT_EQ(status.jobs.size(), 1u);
    EXPECT_EQ(status.jobs[0].job, "well");
  }
};

TEST_F(SetAsideTest, Finding02_AJobWhoseRecordsCannotBeUsedIsSetAsideAndOthersGoOn) {
  MakeSick();
  // Also when the command line names it.
  Serve({{.name = "sick", .size = 2}, {.name = "well", .size = 3}});
  ExpectSetAside("attempt 9223372036854775807");
  ExpectRefused(StatusRequest{.job = "sick"});
  ExpectRefused(CreateJob{.job = "sick", .size = 2});
  ExpectRefused(wire::native::OpenStore{.job = "sick"});
  ExpectRefused(wire::native::PollNodeGroup{.job = "sick", .node = 1});
  ExpectRefused(wire::native::WatchEvents{.job = "sick"});
  ExpectRefused(wire::native::OpenSession{.session = {"0123456789abcdef"}, .job = "sick"});
  ExpectRefused(wire::native::ProcessReport{.job = "sick", .pid = 1});
  EXPECT_TRUE(Native()->Call(StatusRequest{.job = "well"}, kPatience).ok());
}

TEST_F(SetAsideTest, Finding02_ItsRecordsStayUntilItIsDeleted) {
  MakeSick();
  uint64_t bytes = 0;
  for (int life = 0; life < 3; ++life) {
    Serve();
    ExpectSetAside("attempt 9223372036854775807");
    const uint64_t now = Status().set_aside[0].kept_bytes;
    EXPECT_EQ(life == 0 ? now : bytes, now);
    bytes = now;
    End();
  }
  Serve();
  ASSERT_TRUE(Native()->Call(DeleteJob{.job = "sick"}, kPatience).ok());
  EXPECT_TRUE(Status().set_aside.empty());
  ASSERT_TRUE(Native()->Call(CreateJob{.job = "sick", .size = 5}, kPatience).ok());
  End();
  Serve();
  EXPECT_TRUE(Status().set_aside.empty());
  EXPECT_EQ(Status().jobs.size(), 2u);
}

TEST_F(SetAsideTest, Finding02_ASnapshotKeepsItsRecordsAsTheyAre) {
  MakeSick();
  Serve();
  const uint64_t bytes = Status().set_aside[0].kept_bytes;
  End();
  // As the journal does when it has grown long.
  std::vector<std::string> snapshot;
  {
    auto server = Server::Listen(Options({}));
    ASSERT_TRUE(server.ok()) << server.status();
    journal::SnapshotSource source = (*server)->Snapshot();
    while (std::optional<std::string> entry = source()) snapshot.push_back(*std::move(entry));
    (*server)->Drain();
    ASSERT_TRUE((*server)->Run().ok());
  }
  std::filesystem::remove_all(directory_);
  std::filesystem::create_directory(directory_);
  std::filesystem::permissions(directory_, std::filesystem::perms::owner_all);
  WriteEntries(directory_, snapshot);
  Serve();
  ExpectSetAside("attempt 9223372036854775807");
  EXPECT_EQ(Status().set_aside[0].kept_bytes, bytes);
}

TEST_F(SetAsideTest, Finding02_RecordsOfTorchsStoreAndOfNewerVersionsSetTheirJobAsideToo) {
  std::string torch = journal::NewEntry();
  wire::store::EncodeTorchRecords(
      "sick", absl::Now(),
      std::vector<tcpstore::Record>{tcpstore::record::Opened{.attempt = INT64_MAX, .port = 1}},
      torch);
  MakeSick({torch});
  Serve();
  ExpectSetAside("torch's store: attempt 9223372036854775807");
  End();
  std::filesystem::remove_all(directory_);
  MakeSick({journal::NewEntry() +
            wire::native::Encode(wire::store::Entry{
                .job = "sick", .wall_us = 1, .records = {wire::store::Record{}}})});
  Serve();
  ExpectSetAside("a newer version wrote it");
}

TEST_F(SetAsideTest, Finding02_AJobWhosePortIsTakenIsSetAsideAndComesBackWhenItIsFree) {
  Serve({{.name = "sick", .size = 2}, {.name = "well", .size = 3}});
  const std::string address = Status().jobs.front().grpc;
  const std::vector<std::string> before = Jobs();
  End();
  {
    asio::io_context io;
    const auto parsed = runtime::ParseAddress(address);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    asio::ip::tcp::acceptor other(io, {asio::ip::make_address(parsed->host), parsed->port},
                                  /*reuse_addr=*/false);
    Serve();
    ExpectSetAside(address);
    ExpectRefused(StatusRequest{.job = "sick"});
    End();
  }
  Serve();
  EXPECT_TRUE(Status().set_aside.empty());
  EXPECT_EQ(Jobs(), before);
}

TEST_F(SetAsideTest, Finding02_AnIterationThatCannotGoOnFailsAlone) {
  Serve();
  End();
  std::string entry = journal::NewEntry();
  const dispatch::IterationId id(7);
  wire::store::EncodeDataRecords(
      absl::Now(),
      std::vector<dispatch::Record>{
          dispatch::record::IterationOpened{.iteration = id, .spec = {.name = "train"}},
          dispatch::record::Granted{.iteration = id, .lane = dispatch::LaneId(1), .seq = 5},
          dispatch::record::Granted{.iteration = dispatch::IterationId(8)}},
      entry);
  WriteEntries(directory_, {entry});
  for (int life = 0; life < 2; ++life) {
    Serve();
    const auto status = Native()->Call(wire::native::DataStatus{}, kPatience);
    ASSERT_TRUE(status.ok()) << status.status();
    ASSERT_EQ(status->iterations.size(), 1u);
    EXPECT_EQ(status->iterations[0].spec.name, "train");
    EXPECT_EQ(status->iterations[0].phase, wire::native::IterationPhase::kFailed);
    ASSERT_TRUE(status->iterations[0].error.has_value());
    EXPECT_EQ(status->iterations[0].error->reason, "iteration_set_aside");
    End();
  }
}

std::string DataEntryOf(wire::store::DataRecord record) {
  return journal::NewEntry() +
         wire::native::Encode(wire::store::Entry{.wall_us = 1, .data = {std::move(record)}});
}

TEST_F(SetAsideTest, Finding02_ADataServiceOfWhichARecordIsNotKnownIsSetAsideAndJobsGoOn) {
  Serve({{.name = "well", .size = 3}});
  End();
  const wire::store::DataRecord before{
      .dataset_registered = wire::store::DatasetRegistered{.dataset = 5, .name = {"tokens"}}};
  WriteEntries(directory_,
               {DataEntryOf(before), DataEntryOf(wire::store::DataRecord{}), DataEntryOf(before)});
  uint64_t bytes = 0;
  for (int life = 0; life < 3; ++life) {
    Serve();
    const StatusReply status = Status();
    ASSERT_EQ(status.set_aside.size(), 1u);
    EXPECT_EQ(status.set_aside[0].job, "@data");
    EXPECT_THAT(status.set_aside[0].why, HasSubstr("a newer version wrote it"));
    EXPECT_EQ(life == 0 ? status.set_aside[0].kept_bytes : bytes, status.set_aside[0].kept_bytes);
    bytes = status.set_aside[0].kept_bytes;
    EXPECT_EQ(Jobs().size(), 1u);
    const absl::Status refused = Native()->Call(wire::native::DataStatus{}, kPatience).status();
    EXPECT_EQ(wire::native::ReasonOf(refused), "data_set_aside") << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("lockstep job delete @data"));
    End();
  }
  Serve();
  ASSERT_TRUE(Native()->Call(DeleteJob{.job = "@data"}, kPatience).ok());
  for (int life = 0; life < 2; ++life) {
    EXPECT_TRUE(Status().set_aside.empty());
    const auto status = Native()->Call(wire::native::DataStatus{}, kPatience);
    ASSERT_TRUE(status.ok()) << status.status();
    EXPECT_TRUE(status->datasets.empty());
    EXPECT_EQ(Jobs().size(), 1u);
    End();
    Serve();
  }
}

TEST_F(SetAsideTest, Finding02_AnIterationOfANewerVersionFailsAlone) {
  Serve();
  End();
  WriteEntries(directory_, {DataEntryOf({.iteration_opened =
                                             wire::store::IterationOpened{
                                                 .iteration = 7, .name = {"train"}, .mode = 99}}),
                            DataEntryOf({.iteration_started = wire::store::IterationStarted{7}}),
                            DataEntryOf({.iteration_opened = wire::store::IterationOpened{
                                             .iteration = 8, .name = {"other"}}})});
  for (int life = 0; life < 2; ++life) {
    Serve();
    const auto status = Native()->Call(wire::native::DataStatus{}, kPatience);
    ASSERT_TRUE(status.ok()) << status.status();
    ASSERT_EQ(status->iterations.size(), 2u);
    EXPECT_EQ(status->iterations[0].phase, wire::native::IterationPhase::kFailed);
    ASSERT_TRUE(status->iterations[0].error.has_value());
    EXPECT_EQ(status->iterations[0].error->reason, "iteration_set_aside");
    EXPECT_FALSE(status->iterations[1].error.has_value());
    EXPECT_TRUE(Status().set_aside.empty());
    End();
  }
}

// All of them, once there are so many: the newest may still wait for the disk.
std::vector<wire::native::JobEvent> EventsOf(link::Client& client, const std::string& job,
                                             size_t count) {
  std::vector<wire::native::JobEvent> events;
  wire::native::WatchEvents request{.job = job, .wait = true};
  while (events.size() < count) {
    const auto reply = client.Call(request, kPatience);
    EXPECT_TRUE(reply.ok()) << reply.status();
    if (!reply.ok()) break;
    events.insert(events.end(), reply->events.begin(), reply->events.end());
    request.log = reply->log;
    request.after = reply->next_after;
  }
  return events;
}

TEST_F(SavedStateTest, UseA12_EventsAreBackWithTheirOwnTimes) {
  Serve({{.name = "digits", .size = 2}});
  auto native = Native();
  for (int member = 0; member < 2; ++member) {
    ASSERT_TRUE(
        native
            ->Call(wire::native::ProcessReport{.job = "digits",
                                               .member = member,
                                               .event = wire::native::ProcessEvent::kStarted,
                                               .host = "host",
                                               .pid = 100 + member},
                   kPatience)
            .ok());
  }
  const std::vector<wire::native::JobEvent> before = EventsOf(*native, "digits", 3);
  ASSERT_EQ(before.size(), 3u);
  EXPECT_EQ(before[0].kind, wire::native::EventKind::kJobCreated);
  EXPECT_EQ(before[1].kind, wire::native::EventKind::kProcessStarted);
  native.reset();
  End();
  for (size_t life = 1; life < 3; ++life) {
    Serve({{.name = "digits", .size = 2}});
    const std::vector<wire::native::JobEvent> after =
        EventsOf(*Native(), "digits", before.size() + life);
    ASSERT_EQ(after.size(), before.size() + life);
    for (size_t i = 0; i < before.size(); ++i) {
      EXPECT_EQ(after[i].at_unix_us, before[i].at_unix_us) << "when it happened";
      EXPECT_EQ(after[i].kind, before[i].kind);
      EXPECT_EQ(after[i].text, before[i].text);
      EXPECT_EQ(after[i].severity, before[i].severity);
    }
    EXPECT_THAT(after.back().text, HasSubstr("is served again"));
    EXPECT_EQ(after.back().kind, wire::native::EventKind::kNotice);
    EXPECT_GT(after.back().at_unix_us, before.back().at_unix_us);
    End();
  }
}

TEST_F(SavedStateTest, UseA12_ASnapshotKeepsEventsAndADeletedJobsAreForgotten) {
  Serve({{.name = "digits", .size = 2}});
  ASSERT_TRUE(Native()->Call(CreateJob{.job = "gone", .size = 2}, kPatience).ok());
  ASSERT_TRUE(Native()->Call(DeleteJob{.job = "gone"}, kPatience).ok());
  const std::vector<wire::native::JobEvent> before = EventsOf(*Native(), "digits", 1);
  End();
  std::vector<std::string> snapshot;
  {
    auto server = Server::Listen(Options({}));
    ASSERT_TRUE(server.ok()) << server.status();
    journal::SnapshotSource source = (*server)->Snapshot();
    while (std::optional<std::string> entry = source()) snapshot.push_back(*std::move(entry));
    (*server)->Drain();
    ASSERT_TRUE((*server)->Run().ok());
  }
  std::filesystem::remove_all(directory_);
  WriteEntries(directory_, snapshot);
  Serve();
  const std::vector<wire::native::JobEvent> after = EventsOf(*Native(), "digits", 3);
  ASSERT_EQ(after.size(), 3u) << "made, served again, and again";
  EXPECT_EQ(after[0].text, before[0].text);
  EXPECT_EQ(after[0].at_unix_us, before[0].at_unix_us);
  ASSERT_TRUE(Native()->Call(CreateJob{.job = "gone", .size = 2}, kPatience).ok());
  EXPECT_EQ(EventsOf(*Native(), "gone", 1).size(), 1u);
}

}  // namespace
}  // namespace lockstep::server
