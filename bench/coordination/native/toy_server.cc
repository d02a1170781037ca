// toy_server: the least that keeps keys and barriers on this ground, which is one Asio loop, a hash
// map, and with `--state` SQLite. What a service costs beside it is the price of everything else
// that a service is.
//
//   toy_server [--state DIR]
//
// A question is a length (4 bytes, of what follows), an operation, the length of the key (4), the
// key and a value; an answer is a length (8) and a value. Numbers lie as in this host's memory.
// With `--state` nothing is answered that is not durable. Prints its address, and ends with its
// input.
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "asio.hpp"
#include "sqlite3.h"

namespace lockstep::bench {
namespace {

using asio::ip::tcp;

// One row for all records that wait, and one sync for the row.
class Log {
 public:
  using Then = std::function<void()>;

  Log(asio::io_context& io, const std::filesystem::path& folder) : io_(io) {
    std::filesystem::create_directories(folder);
    Must(sqlite3_open((folder / "toy.db").c_str(), &database_) == SQLITE_OK);
    const char* const prepare =
        "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
        "CREATE TABLE log (sequence INTEGER PRIMARY KEY, records BLOB)";
    Must(sqlite3_exec(database_, prepare, nullptr, nullptr, nullptr) == SQLITE_OK);
    const char* const insert = "INSERT INTO log (records) VALUES (?)";
    Must(sqlite3_prepare_v2(database_, insert, -1, &insert_, nullptr) == SQLITE_OK);
    std::thread([this] { Write(); }).detach();  // until the program ends
  }

  // `then` on the loop, when the record is durable; in order.
  void Append(std::string_view record, Then then) {
    const std::lock_guard lock(mutex_);
    records_.append(record);
    then_.push_back(std::move(then));
    if (then_.size() == 1) waiting_.notify_one();
  }

 private:
  void Must(bool ok) {
    if (ok) return;
    std::fprintf(stderr, "toy_server: %s\n", sqlite3_errmsg(database_));
    std::_Exit(1);
  }

  [[noreturn]] void Write() {
    while (true) {
      std::string records;
      std::vector<Then> then;
      {
        std::unique_lock lock(mutex_);
        waiting_.wait(lock, [this] { return !then_.empty(); });
        records.swap(records_);
        then.swap(then_);
      }
      sqlite3_bind_blob64(insert_, 1, records.data(), records.size(), SQLITE_STATIC);
      Must(sqlite3_step(insert_) == SQLITE_DONE);
      sqlite3_reset(insert_);
      asio::post(io_, [then = std::move(then)] {
        for (const Then& each : then) each();
      });
    }
  }

  asio::io_context& io_;
  sqlite3* database_ = nullptr;
  sqlite3_stmt* insert_ = nullptr;
  std::mutex mutex_;  // covers what follows
  std::condition_variable waiting_;
  std::string records_;
  std::vector<Then> then_;
};

// Who asked, and gets the answer.
class Caller {
 public:
  virtual ~Caller() = default;
  virtual void Answer(std::string_view value) = 0;
};
using CallerPtr = std::shared_ptr<Caller>;

class Store {
 public:
  explicit Store(Log* log) : log_(log) {}

  void Ask(char operation, std::string key, std::string_view value, CallerPtr caller) {
    if (operation == 's') return Set(std::move(key), std::string(value), std::move(caller));
    if (operation == 'b') return Arrive(std::move(key), value, std::move(caller));
    const auto found = values_.find(key);
    if (found != values_.end()) return caller->Answer(found->second);
    if (operation == 'g') return caller->Answer({});
    waiters_[std::move(key)].push_back(std::move(caller));
  }

 private:
  void Set(std::string key, std::string value, CallerPtr caller) {
    const std::string record = log_ == nullptr ? "" : key + value;
    Then(record, [this, key = std::move(key), value = std::move(value), caller] {
      caller->Answer({});
      if (const auto node = waiters_.extract(key); !node.empty()) {
        for (const CallerPtr& waiter : node.mapped()) waiter->Answer(value);
      }
      values_[key] = value;
    });
  }

  void Arrive(std::string id, std::string_view value, CallerPtr caller) {
    uint64_t all = 0;
    std::memcpy(&all, value.data(), std::min(value.size(), sizeof(all)));
    std::vector<CallerPtr>& arrived = barriers_[id];
    arrived.push_back(std::move(caller));
    if (arrived.size() < all) return;
    Then(id, [callers = std::move(barriers_.extract(id).mapped())] {
      for (const CallerPtr& each : callers) each->Answer({});
    });
  }

  void Then(std::string_view record, Log::Then then) {
    log_ == nullptr ? then() : log_->Append(record, std::move(then));
  }

  Log* const log_;
  std::unordered_map<std::string, std::string> values_;
  std::unordered_map<std::string, std::vector<CallerPtr>> waiters_;
  std::unordered_map<std::string, std::vector<CallerPtr>> barriers_;
};

class Connection : public Caller, public std::enable_shared_from_this<Connection> {
 public:
  Connection(tcp::socket socket, Store& store) : socket_(std::move(socket)), store_(store) {
    socket_.set_option(tcp::no_delay(true));
  }

  void Read() {
    if (read_.size() - filled_ < kRoom) read_.resize(filled_ + 2 * kRoom);
    socket_.async_read_some(asio::buffer(read_) + filled_,
                            [self = shared_from_this()](const asio::error_code& error, size_t n) {
                              if (error) return;
                              self->filled_ += n;
                              self->Take();
                              self->Read();
                            });
  }

  void Answer(std::string_view value) override {
    const uint64_t length = value.size();
    waiting_.append(reinterpret_cast<const char*>(&length), sizeof(length)).append(value);
    if (writing_.empty()) Write();
  }

 private:
  static constexpr size_t kRoom = 4096;
  static constexpr size_t kHeadBytes = 9;  // both lengths and the operation

  uint32_t Number(size_t at) const {
    uint32_t number = 0;
    std::memcpy(&number, read_.data() + at, sizeof(number));
    return number;
  }

  void Take() {
    size_t at = 0;
    while (filled_ - at >= kHeadBytes && filled_ - at - 4 >= Number(at)) {
      const std::string_view rest = std::string_view(read_).substr(at + kHeadBytes, Number(at) - 5);
      const size_t key = Number(at + 5);
      store_.Ask(read_[at + 4], std::string(rest.substr(0, key)), rest.substr(key),
                 shared_from_this());
      at += kHeadBytes + rest.size();
    }
    std::memmove(read_.data(), read_.data() + at, filled_ - at);
    filled_ -= at;
  }

  void Write() {
    writing_.swap(waiting_);
    asio::async_write(socket_, asio::buffer(writing_),
                      [self = shared_from_this()](const asio::error_code& error, size_t) {
                        self->writing_.clear();
                        if (!error && !self->waiting_.empty()) self->Write();
                      });
  }

  tcp::socket socket_;
  Store& store_;
  std::string read_;
  size_t filled_ = 0;
  std::string writing_;
  std::string waiting_;
};

void Accept(tcp::acceptor& acceptor, Store& store) {
  acceptor.async_accept([&](const asio::error_code& error, tcp::socket socket) {
    if (!error) std::make_shared<Connection>(std::move(socket), store)->Read();
    Accept(acceptor, store);
  });
}

int Main(int argc, char** argv) {
  asio::io_context io(1);
  std::unique_ptr<Log> log;
  if (argc == 3 && std::string_view(argv[1]) == "--state") log = std::make_unique<Log>(io, argv[2]);
  Store store(log.get());
  tcp::acceptor acceptor(io, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  Accept(acceptor, store);
  std::printf("{\"address\": \"127.0.0.1:%d\"}\n", acceptor.local_endpoint().port());
  std::fflush(stdout);
  std::thread([] {
    while (std::getchar() != EOF) {
    }
    std::_Exit(0);
  }).detach();
  io.run();
  return 0;
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) { return lockstep::bench::Main(argc, argv); }
