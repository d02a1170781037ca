#include "lockstep/launch/output_sink.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <future>

#include "gtest/gtest.h"
#include "lockstep/platform/runtime/unique_fd.h"

namespace lockstep::launch {
namespace {

class OutputSinkTest : public testing::Test {
 protected:
  OutputSinkTest() {
    std::signal(SIGPIPE, SIG_IGN);
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    read_end_.reset(ends[0]);
    write_end_.reset(ends[1]);
  }

  std::string ReadAll(size_t bytes) {
    std::string all;
    char buffer[65536];
    while (all.size() < bytes) {
      const ssize_t n =
          ::read(read_end_.get(), buffer, std::min(sizeof buffer, bytes - all.size()));
      if (n <= 0) break;
      all.append(buffer, static_cast<size_t>(n));
    }
    return all;
  }

  static void Flush(OutputSink& sink) {
    std::promise<void> flushed;
    sink.Flush([&flushed] { flushed.set_value(); });
    flushed.get_future().wait();
  }

  runtime::UniqueFd read_end_;
  runtime::UniqueFd write_end_;
};

TEST_F(OutputSinkTest, WritesInOrder) {
  OutputSink sink(
      write_end_.get(), [] {}, [](int) { FAIL(); });
  EXPECT_TRUE(sink.Push("one\n"));
  EXPECT_TRUE(sink.Push("two\n"));
  Flush(sink);
  EXPECT_EQ(ReadAll(8), "one\ntwo\n");
}

TEST_F(OutputSinkTest, TellsWhenThereIsRoomAgain) {
  std::promise<void> room;
  OutputSink sink(
      write_end_.get(), [&room] { room.set_value(); }, [](int) { FAIL(); });
  // Nobody reads: the pipe fills, then the queue.
  std::string expected;
  bool more = true;
  for (char c = 'a'; more; ++c) {
    expected += std::string(100'000, c);
    more = sink.Push(std::string(100'000, c));
    ASSERT_LT(expected.size(), 4 * kOutputQueueBytesMax);
  }
  EXPECT_EQ(ReadAll(expected.size()), expected);
  room.get_future().wait();
  EXPECT_TRUE(sink.Push("x"));
}

TEST_F(OutputSinkTest, DropsWhatNobodyCanReadAndSaysSoOnce) {
  std::atomic<int> errors = 0;
  OutputSink sink(
      write_end_.get(), [] {},
      [&errors](int error) {
        EXPECT_EQ(error, EPIPE);
        ++errors;
      });
  read_end_.reset();
  sink.Push("lost\n");
  Flush(sink);
  sink.Push("lost too\n");
  Flush(sink);
  EXPECT_EQ(errors, 1);
}

TEST_F(OutputSinkTest, WaitsForAStreamThatSomebodyMadeNonBlocking) {
  ::fcntl(write_end_.get(), F_SETFL, O_NONBLOCK);
  OutputSink sink(
      write_end_.get(), [] {}, [](int) { FAIL(); });
  const std::string much(1'000'000, 'x');
  sink.Push(much);
  EXPECT_EQ(ReadAll(much.size()), much);
}

}  // namespace
}  // namespace lockstep::launch
