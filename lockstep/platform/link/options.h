// The bounds and times of a link, the same on both sides. Tests shorten them.
#pragma once

#include <cstddef>

#include "absl/time/time.h"
#include "lockstep/base/limits.h"

namespace lockstep::link {

// The version of the link that this program speaks.
inline constexpr unsigned kLinkVersion = 1;

struct LinkOptions {
  // From the connection to the welcome: how long, and how much either side may send.
  absl::Duration hello_timeout = absl::Seconds(5);
  size_t hello_bytes_max = 4096;

  // An end that has sent nothing for this long sends a ping.
  absl::Duration ping_interval = absl::Seconds(1);
  // An end that has heard nothing for this long drops the link.
  absl::Duration silence_timeout = absl::Seconds(5);

  size_t message_bytes_max = kMessageBytesMax;
  // Messages of which only a part has arrived.
  size_t partial_messages_max = 64;
  // What waits to be written, as it costs; an end whose peer reads too slowly drops the link.
  size_t write_queue_bytes_max = 2 * kMessageBytesMax;
  // So does an end whose peer takes nothing for this long,
  absl::Duration write_timeout = absl::Seconds(30);
  // or does not go on with a message that it has begun.
  absl::Duration message_timeout = absl::Seconds(30);
  // Requests of one link that are not answered yet; one more is answered RESOURCE_EXHAUSTED.
  size_t requests_in_flight_max = 1024;
};

}  // namespace lockstep::link
