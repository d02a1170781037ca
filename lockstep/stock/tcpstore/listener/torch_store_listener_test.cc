#include "lockstep/stock/tcpstore/listener/torch_store_listener.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "lockstep/base/mutex.h"
#include "lockstep/platform/runtime/unique_fd.h"
#include "lockstep/stock/tcpstore/store.h"

namespace lockstep::net {
namespace {

using testing::Contains;
using testing::HasSubstr;

constexpr int kPatienceMs = 20'000;

std::string Number(uint64_t number) {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &number, 8);
  return bytes;
}
std::string Text(const std::string& text) { return Number(text.size()) + text; }
std::string Op(int op) { return std::string(1, static_cast<char>(op)); }
std::string SetBytes(const std::string& key, const std::string& value) {
  return Op(1) + Text(key) + Text(value);
}
std::string GetBytes(const std::string& key) { return Op(3) + Text(key); }
std::string WaitBytes(const std::string& key) { return Op(6) + Number(1) + Text(key); }

const std::string kHello("\0\xce\xf7\x85\x3c", 5);
const std::string kPing = Op(13) + std::string("\x4d\0\0\0", 4);
const std::string kPong("\x4d\0\0\0", 4);

// A client by hand. Blocks, but not for ever.
class Client {
 public:
  explicit Client(uint16_t port, int receive_buffer = 0)
      : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (receive_buffer != 0) {
      setsockopt(fd_.get(), SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
    }
    sockaddr_in at = {};
    at.sin_family = AF_INET;
    at.sin_port = htons(port);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd_.get(), reinterpret_cast<sockaddr*>(&at), sizeof(at)), 0);
  }

  void Send(const std::string& bytes) {
    size_t sent = 0;
    while (sent < bytes.size()) {
      const ssize_t n = send(fd_.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) return;  // the other end has closed, which the test looks for
      sent += static_cast<size_t>(n);
    }
  }

  // So many bytes; fewer if the other end closes.
  std::string Receive(size_t bytes) {
    std::string all;
    while (all.size() < bytes && Readable(kPatienceMs)) {
      std::array<char, 65536> some;
      const ssize_t n = recv(fd_.get(), some.data(), std::min(some.size(), bytes - all.size()), 0);
      if (n <= 0) break;
      all.append(some.data(), static_cast<size_t>(n));
    }
    return all;
  }

  bool Readable(int milliseconds) {
    pollfd wanted = {.fd = fd_.get(), .events = POLLIN, .revents = 0};
    return poll(&wanted, 1, milliseconds) == 1;
  }

  bool ClosedByPeer() { return Readable(kPatienceMs) && Receive(1).empty(); }
  void Leave() { fd_.reset(); }

 private:
  runtime::UniqueFd fd_;
};

class TorchStoreListenerTest : public testing::Test {
 protected:
  explicit TorchStoreListenerTest(TorchStoreListenerOptions options = {},
                                  const tcpstore::StoreOptions& store = {})
      : store_options_(store),
        store_(store),
        listener_(loop_, store_options_, std::move(options),
                  {.connected = [this](tcpstore::ConnectionId id,
                                       std::string peer) { store_.Connected(id, std::move(peer)); },
                   .command =
                       [this](tcpstore::ConnectionId from, const tcpstore::Command& command) {
                         ++commands_;
                         tcpstore::Effects effects;
                         store_.Handle(runtime::MonotonicNow(), from, command, effects);
                         listener_.CarryOut(effects);
                       },
                   .left =
                       [this](tcpstore::ConnectionId id) {
                         tcpstore::Effects effects;
                         store_.Left(id, effects);
                         listener_.CarryOut(effects);
                       },
                   .complain =
                       [this](std::string text) {
                         const MutexLock lock(mutex_);
                         complaints_.push_back(std::move(text));
                       }}) {
    EXPECT_TRUE(listener_.Listen({.host = "127.0.0.1", .port = 0}).ok());
    listener_.Start();
    runner_ = std::thread([this] { loop_.Run(); });
  }
  ~TorchStoreListenerTest() override {
    OnLoop([this] { listener_.Close(); });
    loop_.Stop();
    runner_.join();
  }

  template <class Function>
  void OnLoop(Function function) {
    std::promise<void> done;
    loop_.Post([&] {
      function();
      done.set_value();
    });
    done.get_future().wait();
  }

  tcpstore::StoreView View() {
    tcpstore::StoreView view;
    OnLoop([&] { view = store_.View(); });
    return view;
  }

  // Until somebody waits who was told to: the loop has taken it then.
  void AwaitWaits(size_t waits) {
    while (View().waits < waits) std::this_thread::yield();
  }

  Client Connect(int receive_buffer = 0) {
    Client client(listener_.address().port(), receive_buffer);
    client.Send(kHello);
    return client;
  }

  std::vector<std::string> complaints() {
    const MutexLock lock(mutex_);
    return complaints_;
  }

  const tcpstore::StoreOptions store_options_;
  runtime::Loop loop_;
  tcpstore::Store store_;
  Mutex mutex_;
  std::vector<std::string> complaints_ ABSL_GUARDED_BY(mutex_);
  size_t commands_ = 0;  // the loop's
  TorchStoreListener listener_;
  std::thread runner_;
};

TEST_F(TorchStoreListenerTest, AnswersPipelinedCommandsInOrder) {
  Client client = Connect();
  client.Send(kPing + SetBytes("/a", "value") + GetBytes("/a") + Op(7) + Op(12));
  const std::string expected = kPong + Text("value") + Number(1) + "\x01";
  EXPECT_EQ(client.Receive(expected.size()), expected);
}

TEST_F(TorchStoreListenerTest, Finding07_OneClientDoesNotKeepTheOthersFromTheirTurns) {
  constexpr size_t kCommands = 20'000;
  size_t at_last_turn = 0;
  size_t most_in_a_turn = 0;
  std::function<void()> turn = [&] {
    most_in_a_turn = std::max(most_in_a_turn, commands_ - at_last_turn);
    at_last_turn = commands_;
    if (commands_ < kCommands) loop_.Post([&] { turn(); });
  };
  OnLoop([&] { turn(); });

  Client client = Connect();
  std::string all;
  for (size_t i = 0; i < kCommands; ++i) all += SetBytes("/a", "1");
  client.Send(all + Op(7));
  EXPECT_EQ(client.Receive(8), Number(1));
  OnLoop([&] { turn(); });

  EXPECT_LE(most_in_a_turn, TorchStoreListener::kCommandsPerTurn);
}

TEST_F(TorchStoreListenerTest, AnswersShortListsAmongOtherCommands) {
  Client client = Connect();
  const std::string list = Op(17);
  client.Send(list + SetBytes("/b", "1") + SetBytes("/a", "1") + list + list + kPing + list);
  const std::string names = Number(2) + Text("/a") + Text("/b");
  const std::string expected = Number(0) + names + names + kPong + names;
  EXPECT_EQ(client.Receive(expected.size()), expected);
}

TEST_F(TorchStoreListenerTest, OthersAreServedWhileALongListIsMade) {
  constexpr size_t kKeys = 3 * tcpstore::KeyListings::kNamesSliceMax;
  std::string sets;
  std::string names = Number(kKeys);
  for (size_t i = 0; i < kKeys; ++i) {
    const std::string key = "/" + std::to_string(100'000 + i);
    sets += SetBytes(key, "");
    names += Text(key);
  }
  Client lister = Connect();
  lister.Send(sets + Op(17) + kPing);
  bool lists = false;
  while (!lists) OnLoop([&] { lists = store_.lists(); });
  Client other = Connect();
  for (size_t slice = 0; lists; ++slice) {
    ASSERT_LT(slice, 3u);
    other.Send(kPing + GetBytes("/100000"));
    EXPECT_EQ(other.Receive(12), kPong + Text(""));
    EXPECT_FALSE(lister.Readable(0)) << "its next command has to wait";
    OnLoop([&] {
      tcpstore::Effects effects;
      store_.ListSome(effects);
      // No commands are taken when the answer comes: the connection waits for that, too.
      if (!effects.replies.empty()) listener_.Pause();
      listener_.CarryOut(effects);
      lists = store_.lists();
    });
  }
  EXPECT_TRUE(lister.Receive(names.size()) == names);
  OnLoop([this] { listener_.Resume(); });
  EXPECT_EQ(lister.Receive(4), kPong);
}

TEST_F(TorchStoreListenerTest, TakesAHandshakeInPieces) {
  Client client(listener_.address().port());
  for (const char byte : kHello + kPing) client.Send(std::string(1, byte));
  EXPECT_EQ(client.Receive(4), kPong);
}

TEST_F(TorchStoreListenerTest, AWaitingConnectionIsServedAndThenReleased) {
  Client waiter = Connect();
  waiter.Send(WaitBytes("/a") + kPing);
  EXPECT_EQ(waiter.Receive(4), kPong);
  Client setter = Connect();
  setter.Send(SetBytes("/a", "1"));
  EXPECT_EQ(waiter.Receive(1), std::string(1, '\0'));
}

TEST_F(TorchStoreListenerTest, ForgetsWhoLeaves) {
  Client waiter = Connect();
  waiter.Send(WaitBytes("/a"));
  AwaitWaits(1);
  waiter.Leave();
  while (View().connections > 0) std::this_thread::yield();
  EXPECT_EQ(View().waits, 0u);
}

TEST_F(TorchStoreListenerTest, SendsAwayWhoSpeaksSomethingElse) {
  Client http(listener_.address().port());
  http.Send("GET / HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(http.ClosedByPeer());
  EXPECT_THAT(complaints(), Contains(HasSubstr("it speaks HTTP")));
  EXPECT_THAT(complaints(), Contains(HasSubstr("connection from 127.0.0.1:")));
  EXPECT_EQ(View().connections, 0u);
}

TEST_F(TorchStoreListenerTest, WhatCameBeforeARefusalIsAnswered) {
  Client client = Connect();
  client.Send(kPing + SetBytes("/text", "x") + kPing + Op(4) + Text("/text") + Number(1) + kPing);
  EXPECT_EQ(client.Receive(8), kPong + kPong);
  EXPECT_TRUE(client.ClosedByPeer());
  EXPECT_THAT(complaints(), Contains(HasSubstr("not a number")));
}

TEST_F(TorchStoreListenerTest, CarriesLongValuesBothWays) {
  Client client = Connect();
  const std::string value(8 << 20, 'v');
  client.Send(SetBytes("/a", value) + GetBytes("/a"));
  EXPECT_TRUE(client.Receive(8 + value.size()) == Text(value));
}

TEST_F(TorchStoreListenerTest, DoesNotPileUpAnswersThatNobodyReads) {
  Client lazy = Connect(/*receive_buffer=*/4096);
  const std::string value(200 << 10, 'v');
  constexpr size_t kGets = 100;
  lazy.Send(SetBytes("/a", value));
  for (size_t i = 0; i < kGets; ++i) lazy.Send(GetBytes("/a"));
  lazy.Send(SetBytes("/last", "1"));
  Client other = Connect();
  other.Send(kPing);
  EXPECT_EQ(other.Receive(4), kPong) << "others are served meanwhile";
  bool last = false;
  OnLoop([&] { last = store_.size() > 1; });
  EXPECT_FALSE(last) << "its commands are not taken before their answers can leave";
  for (size_t i = 0; i < kGets; ++i) {
    ASSERT_TRUE(lazy.Receive(8 + value.size()) == Text(value));
  }
  other.Send(WaitBytes("/last"));
  EXPECT_EQ(other.Receive(1), std::string(1, '\0'));
}

TEST_F(TorchStoreListenerTest, ReleasesAThousandWithOneSet) {
  constexpr size_t kClients = 1000;
  std::vector<Client> waiters;
  for (size_t i = 0; i < kClients; ++i) {
    waiters.push_back(Connect());
    waiters.back().Send(WaitBytes("/go"));
  }
  AwaitWaits(kClients);
  Client setter = Connect();
  setter.Send(SetBytes("/go", "1"));
  for (Client& waiter : waiters) ASSERT_EQ(waiter.Receive(1), std::string(1, '\0'));
}

TEST_F(TorchStoreListenerTest, ClosesEverybodyWhenItEnds) {
  Client waiter = Connect();
  waiter.Send(WaitBytes("/a"));
  AwaitWaits(1);
  OnLoop([this] { listener_.Close(); });
  EXPECT_TRUE(waiter.ClosedByPeer());
}

class ImpatientListenerTest : public TorchStoreListenerTest {
 protected:
  ImpatientListenerTest() : TorchStoreListenerTest({.greeting_timeout = absl::Milliseconds(50)}) {}
};

TEST_F(ImpatientListenerTest, SendsAwayWhoSaysNothing) {
  Client greeted = Connect();
  Client silent(listener_.address().port());
  EXPECT_TRUE(silent.ClosedByPeer());
  EXPECT_THAT(complaints(), Contains(HasSubstr("did not say VALIDATE within 50ms")));
  greeted.Send(kPing);
  EXPECT_EQ(greeted.Receive(4), kPong);
}

}  // namespace
}  // namespace lockstep::net
