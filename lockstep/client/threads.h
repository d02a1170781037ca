// The loops of this process and the threads that the client has for them.
#pragma once

#include "absl/status/status.h"
#include "lockstep/client/loop_driver.h"
#include "lockstep/rendezvous/transport/bulk_loop.h"

namespace lockstep::client {

// The loop of all links of this process, with the library's threads, which drive it while no caller
// does and call back into the program around us (LoopDriver).
//
// They block all signals and have a name. They are started when they are first needed and never
// ended: that way nobody must join a thread from within itself. At exit they do what is ready and
// then leave the loop alone, so that they touch nothing that is being destroyed; a destructor that
// still calls something wakes them. A forked child gets threads of its own; those of its parent
// are left where they are. Thread-safe; the reference is good for ever.
LoopDriver& ProcessLoop();

// The same for the loop of long values, with a thread of its own.
transport::BulkLoop& ProcessBulkLoop();
// Takes what that loop needs of the system, without its thread, so that later it cannot be lacking.
// RESOURCE_EXHAUSTED: it is now.
absl::Status MakeProcessBulkLoop();

}  // namespace lockstep::client
