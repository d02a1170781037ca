// The listener of one store for torch's TCPStore clients, on an address of its own, since nothing
// on their wire names a job or an attempt.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "asio/ip/tcp.hpp"
#include "lockstep/platform/runtime/acceptor.h"
#include "lockstep/platform/runtime/address.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/stock/tcpstore/commands.h"
#include "lockstep/stock/tcpstore/effects.h"
#include "lockstep/stock/tcpstore/listener/busy_poll.h"
#include "lockstep/stock/tcpstore/listener/command_gate.h"
#include "lockstep/stock/tcpstore/listener/connection_table.h"
#include "lockstep/stock/tcpstore/listener/greeting_deadlines.h"
#include "lockstep/stock/tcpstore/listener/progress_watch.h"
#include "lockstep/stock/tcpstore/listener/send_queue.h"
#include "lockstep/stock/tcpstore/listener/torch_store_connection.h"
#include "lockstep/stock/tcpstore/options.h"

namespace lockstep::net {

struct TorchStoreListenerOptions {
  runtime::AcceptorOptions connections = {.descriptors_left_min = 64};
  // From a connection to its VALIDATE; then it is closed. Long, since a client may be stopped.
  absl::Duration greeting_timeout = absl::Seconds(60);
  // A connection that goes on neither with a request that it has begun nor with reading its answers
  // is closed after this.
  absl::Duration progress_timeout = absl::Seconds(60);
  // While commands come closer together than this, the loop stays awake for so long behind each;
  // see BusyPoll. Zero: never.
  absl::Duration busy_poll = absl::Microseconds(200);
};

// Turns bytes into commands and answers into bytes, in order. What was sent in one piece is taken
// in one piece, and its answers leave in one. A connection whose answers wait to be read is not
// read on, so that nobody's answers pile up but of one command. After kCommandsPerTurn commands or
// runtime::TurnBudget::kTime a connection lets the others have their turn. After LIST_KEYS the next
// command is taken when `CarryOut` has sent the names, which may take the store many turns. No name
// is ever looked up here.
//
// Threads: loop-confined, but everything may be called while the loop does not run. Ownership: the
// loop and the options outlive it. Destroying it closes all connections and tells nobody. Bounds:
// StoreOptions for one request and one answer, AcceptorOptions for connections; `Events::has_room`
// for all that its buffers hold.
class TorchStoreListener {
 public:
  static constexpr size_t kCommandsPerTurn = 256;

  // Called on the loop. None may destroy the listener.
  struct Events {
    // It has said VALIDATE; `peer` is HOST:PORT.
    std::function<void(tcpstore::ConnectionId, std::string peer)> connected;
    // `CarryOut` may be called at once.
    std::function<void(tcpstore::ConnectionId, const tcpstore::Command&)> command;
    // One is gone, whether or not it was connected.
    std::function<void(tcpstore::ConnectionId)> left;
    // For the log: who was sent away, and why.
    std::function<void(std::string)> complain;
    // Whether a connection may take so many bytes more for a long request; empty: yes, else the
    // limit that forbids it. Null: always.
    std::function<std::string(size_t bytes)> has_room = nullptr;
    // `memory()` has changed. May be null.
    std::function<void()> counted = nullptr;
  };

  // `store`: the bounds that commands are read with. All events are called on the loop.
  TorchStoreListener(runtime::Loop& loop, const tcpstore::StoreOptions& store,
                     TorchStoreListenerOptions options, Events events);
  ~TorchStoreListener();

  // Takes the address. UNAVAILABLE: another process has it, or it is none of this host's. The error
  // names the address.
  absl::Status Listen(const runtime::Address& at);
  asio::ip::tcp::endpoint address() const { return acceptor_.address(); }  // after `Listen`
  void Start() { acceptor_.Start(); }  // accepts; on the loop, or before it runs

  // Sends the answers; closes those who are refused once what they were told is out. Answers to
  // connections that have left are dropped.
  void CarryOut(const tcpstore::Effects& effects);

  // Until `Resume` no commands are taken; what comes meanwhile waits, see CommandGate.
  void Pause() { gate_.Shut(); }
  // Takes commands again, first those that came meanwhile, which may pause it anew.
  void Resume();
  // The command that `Events::command` tells of, as it came; while that is called.
  absl::string_view bytes() const { return taken_.bytes; }
  // No commands of this connection are taken until it is released; what it sends meanwhile waits in
  // its socket. Of one that waits for its list of keys, that is so already. While it is held up, it
  // is not seen to go.
  void HoldUp(tcpstore::ConnectionId connection);
  // Takes its commands again. Does nothing where it was not held up, or has gone.
  void Release(tcpstore::ConnectionId connection);
  // No more commands of this one, who will be refused.
  void TakeNoMoreOf(tcpstore::ConnectionId connection);

  // What all connections hold, as it costs: their buffers, above all.
  size_t memory() const { return connections_.memory(); }

  // Takes no more connections and closes those that there are; `left` is told of none.
  void Close();

 private:
  using ConnectionPtr = TorchStoreConnection::Ptr;

  void TakeSocket(int fd);
  void Read(const ConnectionPtr& connection);
  void ReadDone(const ConnectionPtr& connection, const asio::error_code& error);
  // The commands that have come, as long as their answers can leave.
  void TakeCommands(const ConnectionPtr& connection);
  // What the connection does once it has had its turn. `whole`: there may be more commands.
  void GoOn(const ConnectionPtr& connection, bool whole);
  void Write(const ConnectionPtr& connection);
  void RoomCame(const ConnectionPtr& connection, const asio::error_code& error);
  // Closes it once its last answers are out, as far as the kernel takes them.
  void Refuse(const ConnectionPtr& connection, absl::string_view why);
  void Drop(const ConnectionPtr& connection);
  void LogClosed(const TorchStoreConnection& connection, absl::string_view why);
  void Recount(TorchStoreConnection& connection);

  runtime::Loop& loop_;
  const TorchStoreListenerOptions options_;
  const Events events_;
  runtime::Acceptor acceptor_;
  ConnectionTable connections_;
  GreetingDeadlines greetings_;
  ProgressWatch progress_;
  CommandGate gate_;
  SendQueue unsent_;
  BusyPoll busy_poll_;
  // Memory that is used again by each step.
  struct {
    tcpstore::Command command;
    absl::string_view bytes;
  } taken_;
  std::vector<absl::string_view> pieces_;
};

}  // namespace lockstep::net
