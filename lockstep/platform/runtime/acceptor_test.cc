#include "lockstep/platform/runtime/acceptor.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <deque>
#include <optional>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/base/mutex.h"

namespace lockstep::runtime {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kPatience = absl::Seconds(60);

// What one thread puts in and another waits for.
template <class T>
class Mailbox {
 public:
  void Put(T item) {
    const MutexLock lock(mutex_);
    items_.push_back(std::move(item));
    changed_.NotifyAll();
  }
  // Nothing when nothing came for long.
  std::optional<T> Take() {
    const MutexLock lock(mutex_);
    const WaitLimit until = WaitLimitAfter(kPatience);
    while (items_.empty()) {
      if (!changed_.WaitUntil(mutex_, until)) return {};
    }
    std::optional<T> item = std::move(items_.front());
    items_.pop_front();
    return item;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::deque<T> items_ ABSL_GUARDED_BY(mutex_);
};

int ConnectTo(const asio::ip::tcp::endpoint& address) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port = htons(address.port());
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
  return fd;
}

const Address kAnyPort{.host = "127.0.0.1", .port = 0};

TEST(Acceptor, AddressInUseIsNamed) {
  Loop loop;
  Acceptor first(
      loop, {}, [](int) {}, [](std::string) {});
  ASSERT_TRUE(first.Listen(kAnyPort).ok());
  ASSERT_NE(first.address().port(), 0);
  Acceptor second(
      loop, {}, [](int) {}, [](std::string) {});
  absl::Status status = second.Listen({.host = "127.0.0.1", .port = first.address().port()});
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("127.0.0.1:" + std::to_string(first.address().port())));
}

TEST(Acceptor, AForeignAddressIsNamed) {
  Loop loop;
  Acceptor acceptor(
      loop, {}, [](int) {}, [](std::string) {});
  absl::Status status = acceptor.Listen({.host = "192.0.2.1", .port = 0});
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("192.0.2.1"));
}

TEST(Acceptor, SurvivesRunningOutOfDescriptors) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the undefined-behaviour sanitizer needs descriptors of its own to check objects";
#endif
  Loop loop;
  Mailbox<int> taken;
  Mailbox<std::string> complaints;
  Acceptor acceptor(
      loop, {.pause = absl::Milliseconds(1)}, [&](int fd) { taken.Put(fd); },
      [&](std::string text) { complaints.Put(std::move(text)); });
  ASSERT_TRUE(acceptor.Listen(kAnyPort).ok());
  std::vector<int> fds;
  for (int i = 0; i < 5; ++i) fds.push_back(ConnectTo(acceptor.address()));

  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  none.rlim_cur = 3;  // every new number is above it
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  acceptor.Start();
  std::thread runner([&] { loop.Run(); });
  auto complaint = complaints.Take();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_TRUE(complaint.has_value());
  EXPECT_THAT(*complaint, HasSubstr("ulimit -n"));

  for (int i = 0; i < 5; ++i) {
    auto fd = taken.Take();
    ASSERT_TRUE(fd.has_value());
    fds.push_back(*fd);
  }
  loop.Stop();
  runner.join();
  EXPECT_EQ(acceptor.CountOpenConnections(), 5u);
  for (int fd : fds) close(fd);
  EXPECT_EQ(acceptor.CountOpenConnections(), 0u);
}

// What a connection hears until its end.
std::string ReadAll(int fd) {
  std::string text(100, '\0');
  const ssize_t bytes = read(fd, text.data(), text.size());
  text.resize(static_cast<size_t>(std::max<ssize_t>(bytes, 0)));
  return text;
}

// Leaves the process no descriptor above those it has, while it lives.
class NoMoreDescriptors {
 public:
  NoMoreDescriptors() {
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
    // The lowest number that is free is the first that must not be had.
    const int free = dup(0);
    close(free);
    rlimit none = before_;
    none.rlim_cur = static_cast<rlim_t>(free);
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  }
  ~NoMoreDescriptors() { EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before_), 0); }

 private:
  rlimit before_;
};

TEST(Acceptor, RefusesTheNewestWithoutDescriptors) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the undefined-behaviour sanitizer needs descriptors of its own to check objects";
#endif
  Loop loop;
  Mailbox<int> taken;
  Mailbox<std::string> complaints;
  Acceptor acceptor(
      loop, {.goodbye = "full"}, [&](int fd) { taken.Put(fd); },
      [&](std::string text) { complaints.Put(std::move(text)); });
  ASSERT_TRUE(acceptor.Listen(kAnyPort).ok());
  std::vector<int> fds;
  for (int i = 0; i < 3; ++i) fds.push_back(ConnectTo(acceptor.address()));
  std::thread runner([&] { loop.Run(); });
  {
    const NoMoreDescriptors limit;
    loop.Post([&] { acceptor.Start(); });
    for (const int fd : fds) EXPECT_EQ(ReadAll(fd), "full");
  }
  EXPECT_THAT(complaints.Take().value_or(""), HasSubstr("refused"));
  // And goes on with the next.
  fds.push_back(ConnectTo(acceptor.address()));
  const auto fd = taken.Take();
  ASSERT_TRUE(fd.has_value());
  fds.push_back(*fd);
  loop.Stop();
  runner.join();
  for (const int open : fds) close(open);
}

TEST(Acceptor, TakesAllThatWait) {
  constexpr int kMany = 200;  // more than it takes at a time
  Loop loop;
  Mailbox<int> taken;
  Acceptor acceptor(
      loop, {}, [&](int fd) { taken.Put(fd); }, [](std::string) {});
  ASSERT_TRUE(acceptor.Listen(kAnyPort).ok());
  std::vector<int> fds;
  for (int i = 0; i < kMany; ++i) fds.push_back(ConnectTo(acceptor.address()));
  acceptor.Start();
  std::thread runner([&] { loop.Run(); });
  for (int i = 0; i < kMany; ++i) {
    const auto fd = taken.Take();
    ASSERT_TRUE(fd.has_value());
    EXPECT_EQ(fcntl(*fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    EXPECT_EQ(fcntl(*fd, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
    fds.push_back(*fd);
  }
  loop.Stop();
  runner.join();
  for (const int fd : fds) close(fd);
}

TEST(Acceptor, LeavesTheLastDescriptorsToOthers) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the undefined-behaviour sanitizer needs descriptors of its own to check objects";
#endif
  Loop loop;
  Mailbox<int> taken;
  Mailbox<std::string> complaints;
  Acceptor acceptor(
      loop, {.descriptors_left_min = 8}, [&](int fd) { taken.Put(fd); },
      [&](std::string text) { complaints.Put(std::move(text)); });
  ASSERT_TRUE(acceptor.Listen(kAnyPort).ok());
  std::thread runner([&] { loop.Run(); });
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  few.rlim_cur = 256;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<int> fds = {dup(0)};
  while (fds.back() < 256 - 9) fds.push_back(dup(0));
  // One end of each takes one of the last eight here.
  const int refused = ConnectTo(acceptor.address());
  loop.Post([&] { acceptor.Start(); });
  EXPECT_EQ(ReadAll(refused), "");
  EXPECT_THAT(complaints.Take().value_or(""), HasSubstr("descriptors_left_min"));
  for (int i = 0; i < 2; ++i) {
    close(fds.back());
    fds.pop_back();
  }
  fds.push_back(ConnectTo(acceptor.address()));
  const auto fd = taken.Take();
  ASSERT_TRUE(fd.has_value());
  EXPECT_LT(*fd, 256 - 8);
  fds.insert(fds.end(), {refused, *fd});
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  loop.Stop();
  runner.join();
  for (const int open : fds) close(open);
}

TEST(Acceptor, SparesWhoeverIsWantedLeast) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the undefined-behaviour sanitizer needs descriptors of its own to check objects";
#endif
  Loop loop;
  std::deque<int> held;
  Mailbox<int> taken;
  const auto make_room = [&] {
    if (held.empty()) return false;
    close(held.front());
    held.pop_front();
    return true;
  };
  Acceptor acceptor(
      loop, {.goodbye = "full", .make_room = make_room},
      [&](int fd) {
        held.push_back(fd);
        taken.Put(fd);
      },
      [](std::string) {});
  ASSERT_TRUE(acceptor.Listen(kAnyPort).ok());
  const int first = ConnectTo(acceptor.address());
  const int second = ConnectTo(acceptor.address());
  std::thread runner([&] { loop.Run(); });
  loop.Post([&] { acceptor.Start(); });
  ASSERT_TRUE(taken.Take() && taken.Take());
  const int third = ConnectTo(acceptor.address());
  ASSERT_TRUE(taken.Take());
  {
    const NoMoreDescriptors limit;
    close(third);  // its number is what the next one here takes
    const int fourth = ConnectTo(acceptor.address());
    EXPECT_TRUE(taken.Take());
    EXPECT_EQ(ReadAll(first), "");
    close(fourth);
  }
  loop.Stop();
  runner.join();
  EXPECT_EQ(held.size(), 3u) << "nobody else goes, since nobody else came";
  for (const int fd : held) close(fd);
  close(first);
  close(second);
}

TEST(Acceptor, MayBeDestroyedWhileItWaits) {
  Loop loop;
  auto acceptor = std::make_unique<Acceptor>(
      loop, AcceptorOptions{}, [](int) {}, [](std::string) {});
  ASSERT_TRUE(acceptor->Listen(kAnyPort).ok());
  acceptor->Start();
  bool ran = false;
  loop.Post([&] {
    acceptor.reset();
    loop.Post([&] {
      ran = true;
      loop.Stop();
    });
  });
  loop.Run();
  EXPECT_TRUE(ran);
}

}  // namespace
}  // namespace lockstep::runtime
