// The requests that travel over a link: what is asked, with which messages. The numbers are a
// contract (docs/formats/link.md): never reused. Pure.
#pragma once

#include <cstdint>

#include "lockstep/wire/native/coordination_messages.h"
#include "lockstep/wire/native/data_messages.h"
#include "lockstep/wire/native/data_service_messages.h"
#include "lockstep/wire/native/data_status_messages.h"
#include "lockstep/wire/native/job_messages.h"
#include "lockstep/wire/native/preemption_messages.h"
#include "lockstep/wire/native/process_messages.h"
#include "lockstep/wire/native/status_messages.h"

namespace lockstep::wire::native {

using RequestKind = uint32_t;

template <RequestKind kNumber, class ReplyMessage>
struct Kind {
  static constexpr RequestKind kKind = kNumber;
  using Reply = ReplyMessage;
};

// Names the kind of a request and what answers it.
template <class RequestMessage>
struct KindOf;

template <>
struct KindOf<StatusRequest> : Kind<1, StatusReply> {};
template <>
struct KindOf<ProcessReport> : Kind<2, ProcessReportReply> {};
template <>
struct KindOf<CreateJob> : Kind<3, CreateJobReply> {};
template <>
struct KindOf<DeleteJob> : Kind<4, DeleteJobReply> {};
template <>
struct KindOf<WatchEvents> : Kind<5, WatchEventsReply> {};
template <>
struct KindOf<OpenStore> : Kind<6, OpenStoreReply> {};

template <>
struct KindOf<OpenSession> : Kind<10, OpenSessionReply> {};
template <>
struct KindOf<CloseSession> : Kind<11, CloseSessionReply> {};
template <>
struct KindOf<JoinJob> : Kind<12, JoinJobReply> {};
template <>
struct KindOf<LeaveJob> : Kind<13, LeaveJobReply> {};
template <>
struct KindOf<ReportProgress> : Kind<14, ReportProgressReply> {};
template <>
struct KindOf<PollForError> : Kind<15, PollForErrorReply> {};
template <>
struct KindOf<ReportError> : Kind<16, ReportErrorReply> {};
template <>
struct KindOf<WatchJob> : Kind<17, WatchJobReply> {};

template <>
struct KindOf<Barrier> : Kind<20, BarrierReply> {};
template <>
struct KindOf<CancelBarrier> : Kind<21, CancelBarrierReply> {};
template <>
struct KindOf<AgreeOnIndex> : Kind<22, AgreeOnIndexReply> {};
template <>
struct KindOf<GetAliveMembers> : Kind<23, GetAliveMembersReply> {};

template <>
struct KindOf<GetKey> : Kind<30, GetKeyReply> {};
template <>
struct KindOf<GetKeys> : Kind<31, GetKeysReply> {};
template <>
struct KindOf<SetKey> : Kind<32, SetKeyReply> {};
template <>
struct KindOf<CompareAndSetKey> : Kind<33, CompareAndSetKeyReply> {};
template <>
struct KindOf<IncrementKey> : Kind<34, IncrementKeyReply> {};
template <>
struct KindOf<MaxKey> : Kind<35, MaxKeyReply> {};
template <>
struct KindOf<DeleteKey> : Kind<36, DeleteKeyReply> {};
template <>
struct KindOf<ListKeys> : Kind<37, ListKeysReply> {};
template <>
struct KindOf<WatchKeys> : Kind<38, WatchKeysReply> {};

template <>
struct KindOf<NotifyPreemption> : Kind<40, NotifyPreemptionReply> {};
template <>
struct KindOf<WatchPreemption> : Kind<41, WatchPreemptionReply> {};
template <>
struct KindOf<AnswerFence> : Kind<42, AnswerFenceReply> {};
template <>
struct KindOf<ReportSave> : Kind<43, ReportSaveReply> {};

// The data service: to the dispatcher.
template <>
struct KindOf<RegisterDataset> : Kind<50, RegisterDatasetReply> {};
template <>
struct KindOf<GetDataset> : Kind<51, GetDatasetReply> {};
template <>
struct KindOf<OpenIteration> : Kind<52, OpenIterationReply> {};
template <>
struct KindOf<ConsumerPoll> : Kind<53, ConsumerPollReply> {};
template <>
struct KindOf<CloseConsumer> : Kind<54, CloseConsumerReply> {};
template <>
struct KindOf<WorkerPoll> : Kind<55, WorkerPollReply> {};
template <>
struct KindOf<DataStatus> : Kind<56, DataStatusReply> {};

// The answer to a read is no message of fields (data_chunk.h).
struct RawReply {};

// To a worker.
template <>
struct KindOf<ReadSegment> : Kind<70, RawReply> {};
template <>
struct KindOf<ShareMemory> : Kind<71, ShareMemoryReply> {};

}  // namespace lockstep::wire::native
