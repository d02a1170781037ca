#include "lockstep/server/native_listener.h"

#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/platform/link/testing.h"
#include "lockstep/wire/native/error_reply.h"
#include "lockstep/wire/native/to_event.h"

namespace lockstep::server {
namespace {

using link::FrameType;
using link::Message;
using link::testing::LoopThread;
using link::testing::RawClient;
using link::testing::Seen;
using ::testing::_;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using wire::native::Encode;
using wire::native::KindOf;
namespace native = wire::native;

constexpr SessionId kSession = {.high = 1, .low = 2};

// Reads every call as a look at the key that its bytes name, but for an empty one.
class FakeStockCalls final : public StockCalls {
 public:
  std::variant<coord::Event, native::StockCallReply> Begin(const native::StockCall& call,
                                                           const coord::Caller& caller,
                                                           std::string connection,
                                                           std::string) override {
    connections.Add(std::move(connection));
    if (call.request.view.empty()) return native::StockCallReply{.code = 3, .message = "empty"};
    return coord::GetKey{.caller = caller, .key = std::string(call.request.view)};
  }
  native::StockCallReply End(const coord::Reply& reply) override {
    ended.Add(reply.call);
    const auto* const read = std::get_if<coord::KeyRead>(&reply.answer);
    return {.answer = {"bytes"}, .answer_rest = {read ? read->entry.value : nullptr}};
  }
  void Left(CallId call) override { left.Add(call); }

  Seen<std::string> connections;
  Seen<CallId> ended;
  Seen<CallId> left;
};

// A job that answers nothing by itself, and says what it is told.
class FakeJob final : public NativeJob {
 public:
  FakeJob() : NativeJob(&stock) {}
  void Handle(coord::Event event) override {
    std::visit([this](const auto& e) { Note(e); }, event);
  }

  FakeStockCalls stock;

  Seen<std::string> seen;
  Seen<CallId> calls;
  std::function<void()> on_left;

 private:
  void Note(const coord::OpenSession& e) {
    seen.Add(absl::StrCat("open", e.resume ? " again" : "", " by ", e.who));
    calls.Add(e.call);
  }
  void Note(const coord::SessionBroke& e) { seen.Add(e.silent ? "fell silent" : "broke"); }
  void Note(const coord::AnsweredThrough& e) { seen.Add(absl::StrCat("answered ", e.number)); }
  static const char* At(coord::CallLeft::Agent agent) {
    if (agent == coord::CallLeft::Agent::kConnected) return "";
    return agent == coord::CallLeft::Agent::kAway ? " with its agent" : " as its agent ended";
  }
  void Note(const coord::CallLeft& e) {
    const std::vector<CallId> known = calls.WaitForCount(0);
    const auto call = std::find(known.begin(), known.end(), e.call);
    seen.Add(absl::StrCat("left ", call - known.begin(), At(e.agent)));
    if (on_left) on_left();
  }
  template <class Event>
  void Note(const Event& e) {
    if constexpr (requires { e.caller; }) {
      const char* const standing = e.caller.standing == coord::Standing::kTask ? " as a task"
                                   : e.caller.standing == coord::Standing::kLauncher
                                       ? " as a launcher"
                                       : "";
      const bool passed_on = !e.caller.agent.none();
      seen.Add(absl::StrCat("request ", e.caller.number, passed_on ? " passed on by " : " of ",
                            passed_on ? e.caller.agent.low : e.caller.session.low, standing));
      calls.Add(e.caller.call);
    }
  }
};

class NativeListenerTest : public ::testing::Test {
 protected:
  NativeListenerTest() {
    thread_.Do([this] {
      listener_ = std::make_unique<NativeListener>(
          [this](const native::OpenSession& open,
                 const link::Rights&) -> absl::StatusOr<NativeJob*> {
            if (open.job == "digits") return &job_;
            return native::WithReason(absl::NotFoundError("no such job"), "unknown_job");
          },
          [this](link::LinkId link, absl::Status why) {
            server_->Close(link, std::move(why), "superseded");
          },
          /*join_hosts=*/nullptr,
          std::make_unique<FanOut>(
              thread_.loop(), nullptr,
              FanOutBook::Options{.bytes_min = 100, .hosts_min = 3, .shape = {1, 1}}));
      link::ServerEvents events{
          .request =
              [this](link::Request request, link::Responder responder) {
                if (native::RouteOf(request.kind) == native::Route::kStock) {
                  listener_->TakeStock(request, std::move(responder));
                } else {
                  listener_->Take(std::move(request), std::move(responder));
                }
              },
          .cancelled = [this](link::LinkId link, uint64_t id) { listener_->Cancelled(link, id); },
          .answered = [this](link::LinkId link, uint64_t id) { listener_->Answered(link, id); },
          .ended = [this](link::LinkId link, bool by_peer) { listener_->Ended(link, by_peer); }};
      link::Server::Options options{.listen = "127.0.0.1:0"};
      options.link.silence_timeout = absl::Seconds(1);
      auto server = link::Server::Listen(thread_.loop(), options, std::move(events));
      EXPECT_TRUE(server.ok()) << server.status();
      server_ = *std::move(server);
    });
  }
  ~NativeListenerTest() override {
    thread_.Do([this] {
      server_.reset();
      listener_.reset();
    });
  }

  // A client that has been welcomed.
  std::unique_ptr<RawClient> Connect() {
    auto client = std::make_unique<RawClient>(server_->address());
    client->SayHello();
    client->Expect<native::Welcome>(FrameType::kWelcome);
    return client;
  }
  template <class Request>
  static void Ask(RawClient& client, uint64_t id, const Request& request) {
    client.Send(Message{.type = FrameType::kRequest,
                        .kind = KindOf<Request>::kKind,
                        .id = id,
                        .payload = Encode(request)});
  }
  static native::OpenSession Open(bool resume = false, const std::string& job = "digits") {
    return {.session = native::ToBytes(kSession), .job = job, .resume = resume};
  }
  // The client's session is open, and the job has answered that.
  std::unique_ptr<RawClient> ConnectAndOpen(bool resume = false) {
    auto client = Connect();
    const size_t call = job_.calls.WaitForCount(0).size();
    Ask(*client, 1'000, Open(resume));
    Reply(call, coord::SessionOpened{.resumed = resume, .size = 4});
    EXPECT_EQ(client->Expect<native::OpenSessionReply>(FrameType::kAnswer).size, 4);
    return client;
  }
  // The same, of an agent that takes one answer to several requests.
  std::unique_ptr<RawClient> ConnectAgent(SessionId session, uint32_t fan_out_port = 0) {
    auto agent = Connect();
    const size_t call = job_.calls.WaitForCount(0).size();
    Ask(*agent, 1'000,
        native::OpenSession{.session = native::ToBytes(session),
                            .job = "digits",
                            .shares_answers = true,
                            .fan_out_port = fan_out_port});
    Reply(call, coord::SessionOpened{.size = 4});
    agent->Expect<native::OpenSessionReply>(FrameType::kAnswer);
    return agent;
  }
  // Answers all of these calls of the job in one turn, each with its value.
  using Values = std::vector<std::pair<size_t, std::shared_ptr<const std::string>>>;
  void ReplyToAll(const Values& values) {
    std::vector<coord::Reply> replies;
    for (const auto& [index, value] : values) {
      replies.push_back({.call = job_.calls.WaitForCount(index + 1).at(index),
                         .error = nullptr,
                         .answer = coord::KeyRead{{.key = "a", .value = value}}});
    }
    thread_.Do([&] { listener_->Answer(replies); });
  }
  // What answers these requests and no other, which is the next on the link.
  static std::string NextAnswer(RawClient& agent, const std::vector<uint64_t>& requests) {
    auto message = agent.Receive();
    std::vector<uint64_t> answered;
    if (message && message->type == FrameType::kAlsoAnswered) {
      answered = native::Decode<native::AlsoAnswered>(message->payload)->requests;
      const uint64_t named = message->id;
      message = agent.Receive();
      EXPECT_EQ(message->id, named);
    }
    EXPECT_EQ(message->type, FrameType::kAnswer);
    answered.insert(answered.begin(), message->id);
    EXPECT_EQ(answered, requests);
    const auto reply = native::Decode<native::StockCallReply>(message->payload);
    return reply->answer.data + std::string(reply->answer_rest.view());
  }
  static void AskForKey(RawClient& agent, uint64_t id) {
    Ask(agent, id, native::StockCall{.method = "/s/Get", .request = {"a"}, .connection = id});
  }
  // Answers the call of the job that came as number `index`, once it has come.
  void Reply(size_t index, coord::Answer answer, coord::ErrorPtr error = nullptr) {
    const CallId call = job_.calls.WaitForCount(index + 1).at(index);
    thread_.Do([&] {
      listener_->Answer({{.call = call, .error = std::move(error), .answer = std::move(answer)}});
    });
  }
  std::vector<std::string> SeenByJob(size_t count) { return job_.seen.WaitForCount(count); }

  LoopThread thread_;
  FakeJob job_;
  std::unique_ptr<NativeListener> listener_;
  std::unique_ptr<link::Server> server_;
};

TEST_F(NativeListenerTest, AnswersEachRequestOnItsLink) {
  auto client = ConnectAndOpen();
  Ask(*client, 1, native::GetKey{.key = "a", .wait = true});
  Ask(*client, 2, native::SetKey{.key = "b"});
  Reply(2, coord::KeyWritten{.revision = 7});
  const auto second = client->Receive();
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(second->id, 2u);
  EXPECT_EQ(second->kind, KindOf<native::SetKey>::kKind);
  Reply(1, {}, coord::MakeError(absl::StatusCode::kAborted, coord::Reason::kMemberFailed, "no"));
  const auto error = client->Expect<native::ErrorReply>(FrameType::kError);
  EXPECT_EQ(error.reason, "member_failed");
  EXPECT_THAT(SeenByJob(3), ElementsAre("open by raw", "request 1 of 2", "request 2 of 2"));
}

TEST_F(NativeListenerTest, PassesCallsOfStockClientsOnAndTheirAnswersBack) {
  auto agent = ConnectAndOpen();
  Ask(*agent, 1, native::StockCall{.method = "/s/Get", .request = {"a"}, .connection = 5});
  Reply(1, coord::KeyRead());
  EXPECT_EQ(agent->Expect<native::StockCallReply>(FrameType::kAnswer).answer.data, "bytes");
  Ask(*agent, 2, native::StockCall{.method = "/s/Get", .connection = 6});
  EXPECT_EQ(agent->Expect<native::StockCallReply>(FrameType::kAnswer).code, 3);
  EXPECT_THAT(SeenByJob(2), ElementsAre("open by raw", "request 1 passed on by 2 as a task"));
  const auto connections = job_.stock.connections.WaitForCount(2);
  EXPECT_NE(connections[0], connections[1]);
  EXPECT_TRUE(job_.stock.left.WaitForCount(0).empty());
}

TEST_F(NativeListenerTest, AnAgentGetsOneCopyOfWhatSeveralOfItsClientsWaitFor) {
  auto one = ConnectAgent({.high = 1, .low = 1});
  for (const uint64_t id : {1, 2, 3}) AskForKey(*one, id);
  job_.calls.WaitForCount(4);
  auto two = ConnectAgent({.high = 1, .low = 2});
  AskForKey(*two, 7);
  AskForKey(*two, 8);
  job_.calls.WaitForCount(7);
  const auto value = std::make_shared<const std::string>(1000, 'v');
  const auto other = std::make_shared<const std::string>("other");
  // Of both agents in turn; the last of the first one is told something else.
  ReplyToAll({{1, value}, {5, value}, {2, value}, {6, value}, {3, other}});
  EXPECT_EQ(NextAnswer(*one, {1, 2}), absl::StrCat("bytes", *value));
  EXPECT_EQ(NextAnswer(*one, {3}), "bytesother");
  EXPECT_EQ(NextAnswer(*two, {7, 8}), absl::StrCat("bytes", *value));
  EXPECT_EQ(job_.stock.ended.WaitForCount(5).size(), 5u);
  // The requests were answered: their numbers are free, and a cancel of them means nothing.
  two->Send(Message{.type = FrameType::kCancel, .id = 8});
  AskForKey(*two, 9);
  job_.calls.WaitForCount(8);
  ReplyToAll({{7, other}});
  EXPECT_EQ(NextAnswer(*two, {9}), "bytesother");
  EXPECT_TRUE(job_.stock.left.WaitForCount(0).empty());
}

TEST_F(NativeListenerTest, OneCopyAlsoOfWhatIsAnsweredInSeveralSteps) {
  auto one = ConnectAgent({.high = 1, .low = 1});
  for (const uint64_t id : {1, 2, 3}) AskForKey(*one, id);
  job_.calls.WaitForCount(4);
  auto two = ConnectAgent({.high = 1, .low = 2});
  AskForKey(*two, 7);
  const auto calls = job_.calls.WaitForCount(6);
  const auto value = std::make_shared<const std::string>("value");
  thread_.Do([&] {
    SharedAnswers shared(nullptr);
    for (const size_t index : {1, 5, 2, 3}) {
      listener_->Answer({{.call = calls.at(index),
                          .error = nullptr,
                          .answer = coord::KeyRead{{.key = "a", .value = value}}}},
                        shared);
    }
    EXPECT_TRUE(shared.SendSome(1));
    EXPECT_TRUE(shared.SendSome(1));
    EXPECT_FALSE(shared.SendSome(1)) << "there are two links";
  });
  EXPECT_EQ(NextAnswer(*one, {1, 2, 3}), "bytesvalue");
  EXPECT_EQ(NextAnswer(*two, {7}), "bytesvalue");
}

TEST_F(NativeListenerTest, ALongAnswerToManyAgentsGoesFromOneToTheNext) {
  std::vector<std::unique_ptr<RawClient>> agents;
  for (uint32_t i = 0; i < 4; ++i) {
    // The last one takes no part.
    agents.push_back(ConnectAgent({.high = 1, .low = 1 + i}, i == 3 ? 0 : 7000 + i));
    AskForKey(*agents.back(), 7);
    job_.calls.WaitForCount(2 * (i + 1));
  }
  AskForKey(*agents[1], 8);
  job_.calls.WaitForCount(9);
  const auto value = std::make_shared<const std::string>(200, 'v');
  ReplyToAll({{1, value}, {3, value}, {5, value}, {7, value}, {8, value}});
  const auto told = [&](size_t agent) {
    auto message = agents[agent]->Receive();
    if (message->type == FrameType::kAlsoAnswered) message = agents[agent]->Receive();
    return *native::Decode<native::StockCallReply>(message->payload)->fan_out;
  };
  const native::FanOut first = told(0);
  const auto answer = native::Decode<native::StockCallReply>(*first.answer.data);
  EXPECT_EQ(answer->answer.data + std::string(answer->answer_rest.view()),
            absl::StrCat("bytes", *value));
  const native::FanOut second = told(1);
  EXPECT_EQ(second.from, "127.0.0.1:7000");
  EXPECT_EQ(second.answer.data, nullptr);
  EXPECT_EQ(second.ticket, first.ticket);
  EXPECT_EQ(second.key, first.key);
  EXPECT_EQ(told(2).from, "127.0.0.1:7001");
  EXPECT_EQ(NextAnswer(*agents[3], {7}), absl::StrCat("bytes", *value));
  // Who cannot have it there asks again, and so may others of the job.
  Ask(*agents[2], 9, native::FetchAnswer{.ticket = first.ticket});
  EXPECT_EQ(*told(2).answer.data, *first.answer.data);
  Ask(*agents[2], 10, native::FetchAnswer{.ticket = {"other"}});
  EXPECT_EQ(agents[2]->Expect<native::ErrorReply>(FrameType::kError).reason, "answer_gone");
}

TEST_F(NativeListenerTest, FewAgentsShortAnswersAndErrorsAreAnsweredAsAlways) {
  std::vector<std::unique_ptr<RawClient>> agents;
  for (uint32_t i = 0; i < 3; ++i) {
    agents.push_back(ConnectAgent({.high = 1, .low = 1 + i}, 7000 + i));
    for (const uint64_t id : {7, 8, 9}) AskForKey(*agents.back(), id);
    job_.calls.WaitForCount(4 * (i + 1));
  }
  const auto value = std::make_shared<const std::string>(200, 'v');
  const auto brief = std::make_shared<const std::string>("v");
  ReplyToAll({{1, value}, {5, value}});
  ReplyToAll({{2, brief}, {6, brief}, {9, brief}});
  std::vector<coord::Reply> failed;
  const coord::ErrorPtr error = coord::MakeError(
      absl::StatusCode::kAborted, coord::Reason::kMemberFailed, std::string(200, 'e'));
  for (const size_t call : {3, 7, 10}) {
    failed.push_back({.call = job_.calls.Now().at(call), .error = error, .answer = {}});
  }
  thread_.Do([&] { listener_->Answer(failed); });
  EXPECT_EQ(NextAnswer(*agents[0], {7}), absl::StrCat("bytes", *value));
  for (size_t i = 0; i < 3; ++i) {
    if (i == 1) {
      EXPECT_EQ(NextAnswer(*agents[i], {7}), absl::StrCat("bytes", *value));
    }
    EXPECT_EQ(NextAnswer(*agents[i], {i == 2 ? uint64_t{7} : 8}), "bytesv");
    const auto reply = native::Decode<native::StockCallReply>(agents[i]->Receive()->payload);
    EXPECT_FALSE(reply->fan_out.has_value());
  }
}

TEST_F(NativeListenerTest, AnAgentThatTakesNoSharedAnswersGetsEachByItself) {
  auto agent = ConnectAndOpen();
  AskForKey(*agent, 1);
  AskForKey(*agent, 2);
  job_.calls.WaitForCount(3);
  const auto value = std::make_shared<const std::string>("value");
  ReplyToAll({{1, value}, {2, value}});
  // Whole in the field that agents have always read.
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(agent->Expect<native::StockCallReply>(FrameType::kAnswer).answer.data, "bytesvalue");
  }
}

TEST_F(NativeListenerTest, ACallerThatLeavesIsToldApartFromAnAgentThatIsAway) {
  auto agent = ConnectAndOpen();
  Ask(*agent, 1, native::StockCall{.method = "/s/Get", .request = {"a"}, .connection = 5});
  Ask(*agent, 2, native::StockCall{.method = "/s/Get", .request = {"b"}, .connection = 5});
  SeenByJob(3);
  agent->Send(Message{.type = FrameType::kCancel, .id = 1});
  EXPECT_EQ(agent->Expect<native::ErrorReply>(FrameType::kError).reason, "cancelled");
  // It says nothing any more, until the server gives the link up.
  EXPECT_THAT(SeenByJob(6), ElementsAre(_, _, _, "left 1", "left 2 with its agent", "fell silent"));
  EXPECT_EQ(job_.stock.left.WaitForCount(2).size(), 2u);
}

TEST_F(NativeListenerTest, ALinkThatIsClosedEndsTheCallsOfItsAgent) {
  auto agent = ConnectAndOpen();
  Ask(*agent, 1, native::StockCall{.method = "/s/Get", .request = {"a"}, .connection = 5});
  SeenByJob(2);
  agent.reset();
  EXPECT_THAT(SeenByJob(4), ElementsAre(_, _, "left 1 as its agent ended", "broke"));
}

TEST_F(NativeListenerTest, ASessionThatIsClosedEndsTheCallsOfItsAgent) {
  auto agent = ConnectAndOpen();
  Ask(*agent, 1, native::StockCall{.method = "/s/Get", .request = {"a"}, .connection = 5});
  Ask(*agent, 2, native::CloseSession{});
  Reply(2, {});
  EXPECT_THAT(SeenByJob(4), ElementsAre(_, _, _, "left 1 as its agent ended"));
  EXPECT_EQ(job_.stock.left.WaitForCount(1).size(), 1u);
}

TEST_F(NativeListenerTest, RefusesRequestsWithoutASession) {
  auto client = Connect();
  Ask(*client, 1, native::GetKey{.key = "a"});
  EXPECT_EQ(client->Expect<native::ErrorReply>(FrameType::kError).reason, "no_session");
  Ask(*client, 2, Open(false, "other"));
  EXPECT_EQ(client->Expect<native::ErrorReply>(FrameType::kError).reason, "unknown_job");
  Ask(*client, 3, native::OpenSession{.session = {"short"}, .job = "digits"});
  EXPECT_EQ(client->Expect<native::ErrorReply>(FrameType::kError).reason, "invalid_argument");
}

TEST_F(NativeListenerTest, ASessionThatIsRefusedLeavesTheLinkForAnother) {
  auto client = Connect();
  Ask(*client, 1, Open(true));
  Reply(0, {},
        coord::MakeError(absl::StatusCode::kNotFound, coord::Reason::kUnknownSession, "who?"));
  EXPECT_EQ(client->Expect<native::ErrorReply>(FrameType::kError).reason, "unknown_session");
  Ask(*client, 2, Open());
  Reply(1, coord::SessionOpened{.size = 4});
  client->Expect<native::OpenSessionReply>(FrameType::kAnswer);
  Ask(*client, 3, Open());
  EXPECT_THAT(client->Expect<native::ErrorReply>(FrameType::kError).message,
              HasSubstr("already has a session"));
}

TEST_F(NativeListenerTest, TellsTheJobWhenALinkBreaks) {
  auto client = ConnectAndOpen();
  Ask(*client, 1, native::GetKey{.key = "a", .wait = true});
  Ask(*client, 2, native::GetKey{.key = "b", .wait = true});
  SeenByJob(3);
  client.reset();
  EXPECT_THAT(SeenByJob(6), ElementsAre("open by raw", "request 1 of 2", "request 2 of 2", "left 1",
                                        "left 2", "broke"));
  // What is answered too late is dropped.
  Reply(1, coord::KeyWritten{.revision = 7});
}

TEST_F(NativeListenerTest, TheJobMayAnswerOneCallWhenAnotherLeaves) {
  auto client = ConnectAndOpen();
  Ask(*client, 1, native::GetKey{.key = "a", .wait = true});
  Ask(*client, 2, native::GetKey{.key = "b", .wait = true});
  SeenByJob(3);
  const CallId second = job_.calls.WaitForCount(3).at(2);
  thread_.Do([&] {
    job_.on_left = [&, second] {
      listener_->Answer({{.call = second, .error = nullptr, .answer = coord::KeyWritten{}}});
    };
  });
  client.reset();
  EXPECT_THAT(SeenByJob(6), ElementsAre("open by raw", "request 1 of 2", "request 2 of 2", "left 1",
                                        "left 2", "broke"));
}

TEST_F(NativeListenerTest, SilenceIsNoDeath) {
  auto client = ConnectAndOpen();
  EXPECT_THAT(SeenByJob(2), ElementsAre("open by raw", "fell silent"));
}

TEST_F(NativeListenerTest, ANewerLinkTakesTheSessionOver) {
  auto first = ConnectAndOpen();
  Ask(*first, 1, native::GetKey{.key = "a", .wait = true});
  SeenByJob(2);
  auto second = ConnectAndOpen(true);
  EXPECT_THAT(SeenByJob(5), ElementsAre("open by raw", "request 1 of 2", "left 1", "fell silent",
                                        "open again by raw"));
  EXPECT_EQ(first->Expect<native::ErrorReply>(FrameType::kError).code, 14);
  EXPECT_EQ(first->Expect<native::Farewell>(FrameType::kFarewell).reason, "superseded");
  Ask(*second, 1, native::GetKey{.key = "a", .wait = true});
  Reply(3, coord::KeyRead{{.key = "a", .value = std::make_shared<const std::string>("v")}});
  EXPECT_EQ(second->Expect<native::GetKeyReply>(FrameType::kAnswer).entry.value.data, "v");
}

TEST_F(NativeListenerTest, CancelsWithOneAnswer) {
  auto client = ConnectAndOpen();
  Ask(*client, 1, native::GetKey{.key = "a", .wait = true});
  SeenByJob(2);
  client->Send(Message{.type = FrameType::kCancel, .id = 1});
  client->Send(Message{.type = FrameType::kCancel, .id = 1});
  client->Send(Message{.type = FrameType::kCancel, .id = 99});
  const auto error = client->Expect<native::ErrorReply>(FrameType::kError);
  EXPECT_EQ(error.code, 1);
  EXPECT_EQ(error.reason, "cancelled");
  client->Send(Message{.type = FrameType::kAnswered, .payload = Encode(native::Answered{1})});
  EXPECT_THAT(SeenByJob(4), ElementsAre("open by raw", "request 1 of 2", "left 1", "answered 1"));
}

TEST_F(NativeListenerTest, AClosedSessionIsNotBroken) {
  auto client = ConnectAndOpen();
  Ask(*client, 1, native::CloseSession{});
  Reply(1, {});
  client->Expect<native::CloseSessionReply>(FrameType::kAnswer);
  Ask(*client, 2, native::GetKey{.key = "a"});
  EXPECT_EQ(client->Expect<native::ErrorReply>(FrameType::kError).reason, "no_session");
  client.reset();
  auto other = ConnectAndOpen();
  EXPECT_THAT(SeenByJob(3), ElementsAre("open by raw", "request 1 of 2", "open by raw"));
}

TEST_F(NativeListenerTest, ADeletedJobAnswersEverybody) {
  auto client = ConnectAndOpen();
  Ask(*client, 1, native::GetKey{.key = "a", .wait = true});
  SeenByJob(2);
  thread_.Do([&] {
    EXPECT_EQ(listener_->CountSessions(job_), 1u);
    listener_->JobDeleted(job_, native::WithReason(absl::NotFoundError("deleted"), "job_deleted"));
    EXPECT_EQ(listener_->CountSessions(job_), 0u);
  });
  EXPECT_EQ(client->Expect<native::ErrorReply>(FrameType::kError).reason, "job_deleted");
  Ask(*client, 2, native::GetKey{.key = "a"});
  EXPECT_EQ(client->Expect<native::ErrorReply>(FrameType::kError).reason, "job_deleted");
  EXPECT_THAT(SeenByJob(2), ElementsAre("open by raw", "request 1 of 2"));
}

TEST_F(NativeListenerTest, RefusesWhatNoRequestMayBe) {
  auto client = ConnectAndOpen();
  Ask(*client, 0, native::GetKey{.key = "a"});
  EXPECT_THAT(client->Expect<native::ErrorReply>(FrameType::kError).message,
              HasSubstr("start at 1"));
  client->Send(Message{.type = FrameType::kRequest, .kind = 30, .id = 1, .payload = "\xff"});
  EXPECT_EQ(client->Expect<native::ErrorReply>(FrameType::kError).reason, "invalid_argument");
  client->Send(Message{.type = FrameType::kRequest, .kind = 99, .id = 2});
  EXPECT_EQ(client->Expect<native::ErrorReply>(FrameType::kError).reason, "unknown_request");
}

TEST_F(NativeListenerTest, SaysWhatTheTokenOfTheCallerAllows) {
  thread_.Do([&] {
    uint64_t last = 0;
    for (const native::Role role :
         {native::Role::kTask, native::Role::kLaunch, native::Role::kOperate}) {
      const link::LinkId link(1'000 + ++last);
      const auto take = [&](const auto& request, uint64_t id) {
        constexpr auto kKind = KindOf<std::decay_t<decltype(request)>>::kKind;
        listener_->Take({.link = link,
                         .id = id,
                         .kind = kKind,
                         .payload = Encode(request),
                         .who = "x",
                         .peer = "y",
                         .rights = {.role = role}},
                        link::Responder({}, link, kKind, id));
      };
      take(native::OpenSession{.session = native::ToBytes({.high = 1, .low = last}),
                               .job = "digits"},
           1'000);
      take(native::GetKey{.key = "a"}, 1);
    }
  });
  EXPECT_THAT(SeenByJob(6),
              ElementsAre("open by x", "request 1 of 1 as a task", "open by x",
                          "request 1 of 2 as a launcher", "open by x", "request 1 of 3"));
}

}  // namespace
}  // namespace lockstep::server
