// What a forked child must not share with its parent.
//
// A child that keeps a copy of a connected socket keeps the connection open, and so hides the death
// of its parent from the other end. So sockets that are opened here are closed in every child
// before `fork` returns there. What else is left of the parent in a child (epoll sets, threads that
// are gone, mutexes that may be locked) must not be touched: objects remember their
// `ForkGeneration`.
#pragma once

#include <cstdint>

#include "asio/ip/tcp.hpp"
#include "lockstep/base/mutex.h"

namespace lockstep::runtime {

// Changes in a child of `fork`, and only there. Thread-safe, cheap.
uint64_t ForkGeneration();

// Held while the process forks, so that it is free in the child. Hold it for a moment only, and
// never while calling anything that forks.
Mutex& ForkMutex();

// As ::socket with SOCK_CLOEXEC; a forked child closes it at once. Close it with `CloseSocket`.
int OpenSocket(int family, int type);

// The same for a descriptor that came about otherwise: accepted, received, an eventfd. Close it
// with `CloseGuarded`.
void GuardDescriptor(int fd);
void CloseGuarded(int fd);

// Closes any socket of Asio's; of one from `OpenSocket`, forgets it first.
void CloseSocket(asio::ip::tcp::socket& socket);
// The same, as a reset: what the other end sees when a process dies with unread bytes.
void ResetSocket(asio::ip::tcp::socket& socket);

}  // namespace lockstep::runtime
