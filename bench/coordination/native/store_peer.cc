// The byte protocols of torch's TCPStore and of toy_server, and a bare echo, over plain TCP on one
// loop.
#include <array>
#include <cstring>
#include <deque>
#include <utility>
#include <vector>

#include "asio.hpp"
#include "peer.h"

namespace lockstep::bench {
namespace {

using asio::ip::tcp;

tcp::endpoint Parse(const std::string& address) {
  const size_t colon = address.rfind(':');
  return {asio::ip::make_address(address.substr(0, colon)),
          static_cast<uint16_t>(std::stoi(address.substr(colon + 1)))};
}

// Connections with one question each under way, answered by bytes whose end only the peer knows.
class TcpPeer : public Peer {
 public:
  explicit TcpPeer(const std::string& address) : address_(Parse(address)) {}

  void Connect(size_t clients) override {
    for (size_t i = 0; i < clients; ++i) {
      connections_.push_back(std::make_unique<Connection>(io_));
      connections_.back()->socket.connect(address_);
      connections_.back()->socket.set_option(tcp::no_delay(true));
      Greet(connections_.back()->socket);
    }
  }

  void Run() override {
    io_.restart();
    auto work = asio::make_work_guard(io_);
    io_.run();
  }
  void Stop() override { io_.stop(); }

 protected:
  // How an answer ends.
  enum class Answer { kBytes, kValue };

  virtual void Greet(tcp::socket&) {}

  // Sends the question; the answer has `bytes` bytes (kBytes), or is a length and that many.
  void Ask(size_t client, std::string question, Answer kind, size_t bytes, Done done) {
    Connection& c = *connections_[client];
    c.question = std::move(question);
    c.done = std::move(done);
    asio::async_write(c.socket, asio::buffer(c.question),
                      [](const asio::error_code& error, size_t) {
                        if (error) Die("write: " + error.message());
                      });
    c.answer.clear();
    if (kind == Answer::kBytes) return Receive(c, bytes);
    // The length, and what comes with it, which is usually all.
    asio::async_read(c.socket, asio::buffer(c.head), asio::transfer_at_least(8),
                     [this, &c](const asio::error_code& error, size_t got) {
                       if (error) Die("read: " + error.message());
                       uint64_t length = 0;
                       std::memcpy(&length, c.head.data(), 8);
                       c.answer.assign(c.head.data() + 8, got - 8);
                       Receive(c, length);
                     });
  }

 private:
  struct Connection {
    explicit Connection(asio::io_context& io) : socket(io) {}
    tcp::socket socket;
    std::string question;
    std::array<char, 4096> head;
    std::string answer;
    Done done;
  };

  // What is missing of the answer.
  void Receive(Connection& c, size_t bytes) {
    const size_t got = c.answer.size();
    if (got == bytes) return End(c);
    c.answer.resize(bytes);
    asio::async_read(c.socket, asio::buffer(c.answer) + got,
                     [&c](const asio::error_code& error, size_t) {
                       if (error) Die("read: " + error.message());
                       End(c);
                     });
  }
  static void End(Connection& c) {
    const std::string value = std::move(c.answer);
    std::exchange(c.done, nullptr)(value);
  }

  const tcp::endpoint address_;
  asio::io_context io_;
  std::vector<std::unique_ptr<Connection>> connections_;
};

std::string Number(uint64_t number) {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &number, 8);
  return bytes;
}
std::string Text(const std::string& text) { return Number(text.size()) + text; }

// TCPStore's `set` is not answered; a question for the same key behind it is, so that a set counts
// when it is done, as everywhere else.
class StorePeer : public TcpPeer {
 public:
  using TcpPeer::TcpPeer;

  void Set(size_t client, std::string key, std::string value, Done done) override {
    Ask(client, Op(kSet) + Text(key) + Text(value) + Op(kCheck) + Number(1) + Text(key),
        Answer::kBytes, 1, std::move(done));
  }
  void Get(size_t client, std::string key, Done done) override {
    Ask(client, Op(kGet) + Text(key), Answer::kValue, 0, std::move(done));
  }
  // As torch's client: waits, then reads.
  void Wait(size_t client, std::string key, Done done) override {
    Ask(client, Op(kWait) + Number(1) + Text(key), Answer::kBytes, 1,
        [this, client, key, done = std::move(done)](std::string_view) mutable {
          Get(client, key, std::move(done));
        });
  }
  void Swap(size_t client, std::string key, std::string expected, std::string value,
            Done done) override {
    Ask(client, Op(kCompareSet) + Text(key) + Text(expected) + Text(value), Answer::kValue, 0,
        std::move(done));
  }
  void Barrier(size_t client, std::string id, Done done) override {
    // It counts arrivals under the name, and never begins anew.
    id += std::to_string(barriers_[client]++);
    Ask(client, Op(kBarrier) + Text(id) + Number(clients_), Answer::kBytes, 1, std::move(done));
  }
  void Connect(size_t clients) override {
    clients_ = clients;
    barriers_.resize(clients);
    TcpPeer::Connect(clients);
  }

 private:
  enum : char {
    kValidate = 0,
    kSet = 1,
    kCompareSet = 2,
    kGet = 3,
    kCheck = 5,
    kWait = 6,
    kPing = 13,
    kBarrier = 18
  };
  static std::string Op(char op) { return std::string(1, op); }

  void Greet(tcp::socket& socket) override {
    const std::string hello{kValidate, '\xce', '\xf7', '\x85', '\x3c', kPing, 1, 2, 3, 4};
    asio::write(socket, asio::buffer(hello));
    std::array<char, 4> pong;
    asio::read(socket, asio::buffer(pong));
  }

  size_t clients_ = 0;
  std::vector<size_t> barriers_;  // of each client
};

class ToyPeer : public TcpPeer {
 public:
  using TcpPeer::TcpPeer;
  void Connect(size_t clients) override {
    clients_ = clients;
    TcpPeer::Connect(clients);
  }
  void Set(size_t client, std::string key, std::string value, Done done) override {
    Ask(client, Question('s', key, value), Answer::kBytes, 8, std::move(done));
  }
  void Get(size_t client, std::string key, Done done) override {
    Ask(client, Question('g', key, ""), Answer::kValue, 0, std::move(done));
  }
  void Wait(size_t client, std::string key, Done done) override {
    Ask(client, Question('w', key, ""), Answer::kValue, 0, std::move(done));
  }
  void Barrier(size_t client, std::string id, Done done) override {
    Ask(client, Question('b', id, Number(clients_)), Answer::kBytes, 8, std::move(done));
  }

 private:
  static std::string Question(char operation, const std::string& key, const std::string& value) {
    const auto length = [](size_t bytes) { return Number(bytes).substr(0, 4); };
    return length(5 + key.size() + value.size()) + operation + length(key.size()) + key + value;
  }

  size_t clients_ = 0;
};

// Asks for nothing but its own bytes back: what TCP and one loop on each side cost alone.
class EchoPeer : public TcpPeer {
 public:
  using TcpPeer::TcpPeer;
  void Set(size_t client, std::string key, std::string value, Done done) override {
    const std::string bytes = key + value;
    Ask(client, bytes, Answer::kBytes, bytes.size(), std::move(done));
  }
  void Get(size_t client, std::string key, Done done) override {
    Set(client, std::move(key), std::string(64, 'x'), std::move(done));
  }
};

}  // namespace

std::unique_ptr<Peer> MakeStorePeer(const std::string& address) {
  return std::make_unique<StorePeer>(address);
}
std::unique_ptr<Peer> MakeToyPeer(const std::string& address) {
  return std::make_unique<ToyPeer>(address);
}
std::unique_ptr<Peer> MakeEchoPeer(const std::string& address) {
  return std::make_unique<EchoPeer>(address);
}

}  // namespace lockstep::bench
