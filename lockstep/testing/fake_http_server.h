// An HTTP server on the loopback interface whose answers a test makes, faults and all. Tests only.
#pragma once

#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/preempt/connection.h"
#include "lockstep/preempt/http_message.h"

namespace lockstep::testing {

// A whole answer with these parts.
std::string WireAnswer(int status, const std::string& body,
                       const preempt::HttpHeaders& headers = {});

// A thread a connection. The state of what is faked is changed within `Change` and read by the
// handler, which holds the same mutex and may wait for a change: so a long poll needs no clock.
class FakeHttpServer {
 public:
  using Lock = std::unique_lock<std::mutex>;
  // Gives the bytes of the answer; empty: the connection is dropped.
  using Handler = std::function<std::string(const preempt::HttpMessage& request, Lock& lock)>;

  FakeHttpServer();
  // Ends the server; before what the handler uses goes.
  ~FakeHttpServer();
  void Serve(Handler handler);
  void Stop();

  std::string url() const;

  // Changes what the handler sees, and wakes those that wait in it.
  void Change(const std::function<void()>& change);
  // For handlers: until `ready`, a fault, the end of the server, or that much time; whether ready.
  bool Wait(Lock& lock, absl::Duration most, const std::function<bool()>& ready);

  // Every request is answered by these bytes, or dropped (empty), or never (`kHold`), until it is
  // taken back; those that wait in the handler too.
  static const char* const kHold;
  void SetFault(std::optional<std::string> bytes);

  // METHOD and target of all requests so far.
  std::vector<std::string> requests();

 private:
  void Accept();
  void Converse(preempt::Descriptor connection);

  const preempt::Listening listening_;
  const preempt::Descriptor interrupt_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Handler handler_;
  std::optional<std::string> fault_;
  bool stopping_ = false;
  std::vector<std::string> requests_;
  std::list<std::thread> connections_;
  std::thread acceptor_;
};

// Says `head` to whoever connects, and then one byte after the other, slowly and without end.
class DrippingServer {
 public:
  explicit DrippingServer(std::string head);
  ~DrippingServer();
  int port() const { return listening_.port; }

 private:
  void Drip(const preempt::Descriptor& connection) const;

  const std::string head_;
  const preempt::Listening listening_;
  const preempt::Descriptor interrupt_;
  std::thread thread_;
};

}  // namespace lockstep::testing
