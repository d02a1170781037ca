// Two ends of a tunnel, each with a connection of its own, and a link between them that the test
// is.
#include "lockstep/platform/link/tunnel.h"

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "asio/buffer.hpp"
#include "asio/io_context.hpp"
#include "asio/ip/tcp.hpp"
#include "asio/write.hpp"
#include "gtest/gtest.h"

namespace lockstep::link {
namespace {

using asio::ip::tcp;

constexpr uint64_t kId = 7;

class TunnelTest : public ::testing::Test {
 protected:
  struct End {
    std::unique_ptr<tcp::socket> program;  // whose connection goes through the tunnel
    std::shared_ptr<Tunnel> tunnel;
    std::vector<Message> sent;  // for the other end, not delivered yet
    bool over = false;
  };

  TunnelTest() {
    for (End& end : ends_) {
      tcp::acceptor acceptor(io_, {asio::ip::address_v4::loopback(), 0});
      end.program = std::make_unique<tcp::socket>(io_);
      end.program->connect(acceptor.local_endpoint());
      end.program->non_blocking(true);
      end.tunnel =
          Tunnel::Start(acceptor.accept(), kId,
                        {.send = [&end](Message frame) { end.sent.push_back(std::move(frame)); },
                         .over = [&end] { end.over = true; }});
    }
  }

  // Until nothing moves any more.
  void Run() {
    for (int quiet = 0; quiet < 3; ++quiet) {
      if (io_.run_for(std::chrono::milliseconds(2)) > 0) quiet = -1;
      io_.restart();
      for (size_t from : {0, 1}) {
        for (Message& frame : std::exchange(ends_[from].sent, {})) {
          EXPECT_EQ(frame.id, kId);
          EXPECT_TRUE(ends_[1 - from].tunnel->Take(std::move(frame)).ok());
          quiet = -1;
        }
      }
    }
  }

  // Until the first end has written all, whose credit nobody takes.
  void Write() {
    while (io_.run_for(std::chrono::milliseconds(2)) > 0) io_.restart();
    io_.restart();
    one_.sent.clear();
  }

  // What has arrived for the program; `error`: why nothing more came.
  std::string Read(End& end, asio::error_code& error) {
    std::string all;
    std::string piece(1 << 16, '\0');
    while (true) {
      const size_t count = end.program->read_some(asio::buffer(piece), error);
      if (error) return all;
      all.append(piece, 0, count);
    }
  }
  std::string Read(End& end) {
    asio::error_code error;
    return Read(end, error);
  }

  asio::io_context io_;
  End ends_[2];
  End& one_ = ends_[0];
  End& two_ = ends_[1];
};

TEST_F(TunnelTest, CarriesBytesBothWays) {
  asio::write(*one_.program, asio::buffer("ask", 3));
  Run();
  EXPECT_EQ(Read(two_), "ask");
  asio::write(*two_.program, asio::buffer("answer", 6));
  Run();
  EXPECT_EQ(Read(one_), "answer");
}

TEST_F(TunnelTest, CarriesMoreThanAWindow) {
  std::string sent(10 * TunnelFlow::kWindow, '\0');
  for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<char>(i * 31 / 7);
  std::string rest = sent;
  std::string came;
  while (came.size() < sent.size()) {
    asio::error_code error;
    const size_t count = rest.empty() ? 0 : one_.program->write_some(asio::buffer(rest), error);
    rest.erase(0, count);
    Run();
    const std::string more = Read(two_);
    ASSERT_TRUE(count > 0 || !more.empty()) << "stands still after " << came.size();
    came += more;
  }
  EXPECT_EQ(came, sent);
}

TEST_F(TunnelTest, OneWhoTakesNothingHoldsUpAWindowOnly) {
  // Nothing of the second end runs: what comes there is counted, and not written.
  const std::string much(1 << 20, 'x');
  asio::error_code error;
  one_.program->write_some(asio::buffer(much), error);
  for (int i = 0; i < 100; ++i) {
    io_.poll();
    io_.restart();
  }
  size_t sent = 0;
  for (const Message& frame : one_.sent) sent += frame.payload.size();
  EXPECT_EQ(sent, TunnelFlow::kWindow);
}

TEST_F(TunnelTest, OneDirectionEndsBeforeTheOther) {
  asio::write(*one_.program, asio::buffer("last", 4));
  one_.program->shutdown(tcp::socket::shutdown_send);
  Run();
  asio::error_code error;
  EXPECT_EQ(Read(two_, error), "last");
  EXPECT_EQ(error, asio::error::eof);
  EXPECT_FALSE(one_.over || two_.over);
  asio::write(*two_.program, asio::buffer("still", 5));
  Run();
  EXPECT_EQ(Read(one_), "still");
  two_.program->close();
  Run();
  EXPECT_EQ(Read(one_, error), "");
  EXPECT_EQ(error, asio::error::eof);
  EXPECT_TRUE(one_.over && two_.over);
}

TEST_F(TunnelTest, AResetGoesThrough) {
  one_.program->set_option(asio::socket_base::linger(true, 0));
  one_.program->close();
  Run();
  asio::error_code error;
  Read(two_, error);
  EXPECT_EQ(error, asio::error::connection_reset);
  EXPECT_TRUE(one_.over && two_.over);
}

// As a program does that closes while the other one still sends: it has ended in order, and what
// comes then finds nobody.
TEST_F(TunnelTest, OneThatHasEndedMayStillBreak) {
  const std::string much(4 * TunnelFlow::kWindow, 'x');
  asio::error_code error;
  two_.program->write_some(asio::buffer(much), error);
  one_.program->close();
  Run();
  two_.program->write_some(asio::buffer(much), error);
  Run();
  EXPECT_TRUE(one_.over && two_.over);
}

TEST_F(TunnelTest, SmallFramesArriveInOrder) {
  std::string sent;
  for (int i = 0; i < 20'000; ++i) {
    Message frame = {.type = FrameType::kTunnelData, .id = kId, .payload = absl::StrCat(i, " ")};
    sent += frame.payload;
    ASSERT_TRUE(one_.tunnel->Take(std::move(frame)).ok()) << i;
    if (i % 5'000 == 0) Write();
  }
  Write();
  EXPECT_EQ(Read(one_), sent);
}

TEST_F(TunnelTest, ALinkThatGoesBreaksTheConnection) {
  one_.tunnel->Abandon();
  Run();
  asio::error_code error;
  Read(one_, error);
  EXPECT_EQ(error, asio::error::connection_reset);
  EXPECT_FALSE(one_.over) << "who abandons it knows";
}

TEST_F(TunnelTest, RefusesFramesThatBreakTheRules) {
  const auto take = [this](Message frame) { return one_.tunnel->Take(std::move(frame)); };
  EXPECT_FALSE(take({.type = FrameType::kTunnelData, .id = kId}).ok()) << "no bytes";
  EXPECT_FALSE(take({.type = FrameType::kTunnelCredit, .kind = 1, .id = kId}).ok());
  const std::string more(TunnelFlow::kWindow + 1, 'x');
  EXPECT_FALSE(take({.type = FrameType::kTunnelData, .id = kId, .payload = more}).ok());
  EXPECT_TRUE(take({.type = FrameType::kTunnelEnd, .id = kId}).ok());
  EXPECT_FALSE(take({.type = FrameType::kTunnelEnd, .id = kId}).ok());
  EXPECT_FALSE(take({.type = FrameType::kTunnelData, .id = kId, .payload = "x"}).ok());
}

}  // namespace
}  // namespace lockstep::link
