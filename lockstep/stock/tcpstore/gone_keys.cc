#include "lockstep/stock/tcpstore/gone_keys.h"

#include "lockstep/base/check.h"

namespace lockstep::tcpstore {

bool GoneKeys::FreeSome() {
  size_t left = kSliceMax;
  while (!keys_.empty() && left > 0) {
    KeyTable& table = keys_.front();
    for (; !table.empty() && left > 0; --left) table.erase(table.begin());
    if (!table.empty()) break;
    keys_.pop_front();
  }
  while (!queues_.empty() && left > 0) {
    QueueTable& table = queues_.front();
    // From where the last slice ended: erasing leaves holes, which `begin` would walk over again.
    if (!next_queue_) next_queue_ = table.begin();
    for (; *next_queue_ != table.end() && left > 0; --left) {
      Queue& queue = (*next_queue_)->second;
      // A queue may be as long as a table: it is freed value by value, too.
      if (!queue.empty()) queue.pop_front();
      if (queue.empty()) table.erase((*next_queue_)++);
    }
    if (*next_queue_ != table.end()) break;
    // First the place, which is in the table that goes.
    next_queue_.reset();
    queues_.pop_front();
  }
  LOCKSTEP_DCHECK(!next_queue_ || !queues_.empty());  // the place is in the first table
  return !empty();
}

}  // namespace lockstep::tcpstore
