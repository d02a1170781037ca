// The requests that travel over a link: what is asked, with which messages. The numbers are a
// contract (docs/formats/link.md): never reused. Pure.
#pragma once

#include <cstdint>
#include <string_view>

#include "lockstep/wire/native/coordination_messages.h"
#include "lockstep/wire/native/job_messages.h"
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

template <>
struct KindOf<wire::native::CreateJob> {
  static constexpr RequestKind kKind = 3;
  using Reply = wire::native::CreateJobReply;
};

template <>
struct KindOf<wire::native::DeleteJob> {
  static constexpr RequestKind kKind = 4;
  using Reply = wire::native::DeleteJobReply;
};

template <>
struct KindOf<wire::native::WatchEvents> {
  static constexpr RequestKind kKind = 5;
  using Reply = wire::native::WatchEventsReply;
};

template <>
struct KindOf<wire::native::OpenSession> {
  static constexpr RequestKind kKind = 10;
  using Reply = wire::native::OpenSessionReply;
};

template <>
struct KindOf<wire::native::CloseSession> {
  static constexpr RequestKind kKind = 11;
  using Reply = wire::native::CloseSessionReply;
};

template <>
struct KindOf<wire::native::JoinJob> {
  static constexpr RequestKind kKind = 12;
  using Reply = wire::native::JoinJobReply;
};

template <>
struct KindOf<wire::native::LeaveJob> {
  static constexpr RequestKind kKind = 13;
  using Reply = wire::native::LeaveJobReply;
};

template <>
struct KindOf<wire::native::ReportProgress> {
  static constexpr RequestKind kKind = 14;
  using Reply = wire::native::ReportProgressReply;
};

template <>
struct KindOf<wire::native::PollForError> {
  static constexpr RequestKind kKind = 15;
  using Reply = wire::native::PollForErrorReply;
};

template <>
struct KindOf<wire::native::ReportError> {
  static constexpr RequestKind kKind = 16;
  using Reply = wire::native::ReportErrorReply;
};

template <>
struct KindOf<wire::native::WatchJob> {
  static constexpr RequestKind kKind = 17;
  using Reply = wire::native::WatchJobReply;
};

template <>
struct KindOf<wire::native::Barrier> {
  static constexpr RequestKind kKind = 20;
  using Reply = wire::native::BarrierReply;
};

template <>
struct KindOf<wire::native::CancelBarrier> {
  static constexpr RequestKind kKind = 21;
  using Reply = wire::native::CancelBarrierReply;
};

template <>
struct KindOf<wire::native::AgreeOnIndex> {
  static constexpr RequestKind kKind = 22;
  using Reply = wire::native::AgreeOnIndexReply;
};

template <>
struct KindOf<wire::native::GetAliveMembers> {
  static constexpr RequestKind kKind = 23;
  using Reply = wire::native::GetAliveMembersReply;
};

template <>
struct KindOf<wire::native::GetKey> {
  static constexpr RequestKind kKind = 30;
  using Reply = wire::native::GetKeyReply;
};

template <>
struct KindOf<wire::native::GetKeys> {
  static constexpr RequestKind kKind = 31;
  using Reply = wire::native::GetKeysReply;
};

template <>
struct KindOf<wire::native::SetKey> {
  static constexpr RequestKind kKind = 32;
  using Reply = wire::native::SetKeyReply;
};

template <>
struct KindOf<wire::native::CompareAndSetKey> {
  static constexpr RequestKind kKind = 33;
  using Reply = wire::native::CompareAndSetKeyReply;
};

template <>
struct KindOf<wire::native::IncrementKey> {
  static constexpr RequestKind kKind = 34;
  using Reply = wire::native::IncrementKeyReply;
};

template <>
struct KindOf<wire::native::MaxKey> {
  static constexpr RequestKind kKind = 35;
  using Reply = wire::native::MaxKeyReply;
};

template <>
struct KindOf<wire::native::DeleteKey> {
  static constexpr RequestKind kKind = 36;
  using Reply = wire::native::DeleteKeyReply;
};

template <>
struct KindOf<wire::native::ListKeys> {
  static constexpr RequestKind kKind = 37;
  using Reply = wire::native::ListKeysReply;
};

template <>
struct KindOf<wire::native::WatchKeys> {
  static constexpr RequestKind kKind = 38;
  using Reply = wire::native::WatchKeysReply;
};

}  // namespace lockstep::link
