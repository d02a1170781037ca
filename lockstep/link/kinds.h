// The requests that travel over a link: what is asked, with which messages. The numbers are a
// contract (docs/formats/link.md): never reused. Pure.
#pragma once

#include <cstdint>
#include <string_view>

#include "lockstep/wire/native/process_messages.h"
#include "lockstep/wire/native/status_messages.h"

namespace lockstep::link {

using RequestKind = uint32_t;

// Names the kind of a request and what answers it.
template <class RequestMessage>
struct KindOf;

template <>
struct KindOf<wire::native::StatusRequest> {
  static constexpr RequestKind kKind = 1;
  using Reply = wire::native::StatusReply;
};

template <>
struct KindOf<wire::native::ProcessReport> {
  static constexpr RequestKind kKind = 2;
  using Reply = wire::native::ProcessReportReply;
};

}  // namespace lockstep::link
