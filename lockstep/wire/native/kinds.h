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

template <RequestKind kNumber, class ReplyMessage, class RequestMessage>
struct Kind {
  static_assert(StatesItsBounds<RequestMessage>(),
                "state a bound for each text, list and number (bounds.h)");
  static constexpr RequestKind kKind = kNumber;
  using Reply = ReplyMessage;
};

// Names the kind of a request and what answers it.
template <class RequestMessage>
struct KindOf;

template <>
struct KindOf<StatusRequest> : Kind<1, StatusReply, StatusRequest> {};
template <>
struct KindOf<ProcessReport> : Kind<2, ProcessReportReply, ProcessReport> {};
template <>
struct KindOf<CreateJob> : Kind<3, CreateJobReply, CreateJob> {};
template <>
struct KindOf<DeleteJob> : Kind<4, DeleteJobReply, DeleteJob> {};
template <>
struct KindOf<WatchEvents> : Kind<5, WatchEventsReply, WatchEvents> {};
template <>
struct KindOf<OpenStore> : Kind<6, OpenStoreReply, OpenStore> {};

template <>
struct KindOf<OpenSession> : Kind<10, OpenSessionReply, OpenSession> {};
template <>
struct KindOf<CloseSession> : Kind<11, CloseSessionReply, CloseSession> {};
template <>
struct KindOf<JoinJob> : Kind<12, JoinJobReply, JoinJob> {};
template <>
struct KindOf<LeaveJob> : Kind<13, LeaveJobReply, LeaveJob> {};
template <>
struct KindOf<ReportProgress> : Kind<14, ReportProgressReply, ReportProgress> {};
template <>
struct KindOf<PollForError> : Kind<15, PollForErrorReply, PollForError> {};
template <>
struct KindOf<ReportError> : Kind<16, ReportErrorReply, ReportError> {};
template <>
struct KindOf<WatchJob> : Kind<17, WatchJobReply, WatchJob> {};

template <>
struct KindOf<Barrier> : Kind<20, BarrierReply, Barrier> {};
template <>
struct KindOf<CancelBarrier> : Kind<21, CancelBarrierReply, CancelBarrier> {};
template <>
struct KindOf<AgreeOnIndex> : Kind<22, AgreeOnIndexReply, AgreeOnIndex> {};
template <>
struct KindOf<GetAliveMembers> : Kind<23, GetAliveMembersReply, GetAliveMembers> {};

template <>
struct KindOf<GetKey> : Kind<30, GetKeyReply, GetKey> {};
template <>
struct KindOf<GetKeys> : Kind<31, GetKeysReply, GetKeys> {};
template <>
struct KindOf<SetKey> : Kind<32, SetKeyReply, SetKey> {};
template <>
struct KindOf<CompareAndSetKey> : Kind<33, CompareAndSetKeyReply, CompareAndSetKey> {};
template <>
struct KindOf<IncrementKey> : Kind<34, IncrementKeyReply, IncrementKey> {};
template <>
struct KindOf<MaxKey> : Kind<35, MaxKeyReply, MaxKey> {};
template <>
struct KindOf<DeleteKey> : Kind<36, DeleteKeyReply, DeleteKey> {};
template <>
struct KindOf<ListKeys> : Kind<37, ListKeysReply, ListKeys> {};
template <>
struct KindOf<WatchKeys> : Kind<38, WatchKeysReply, WatchKeys> {};

template <>
struct KindOf<NotifyPreemption> : Kind<40, NotifyPreemptionReply, NotifyPreemption> {};
template <>
struct KindOf<WatchPreemption> : Kind<41, WatchPreemptionReply, WatchPreemption> {};
template <>
struct KindOf<AnswerFence> : Kind<42, AnswerFenceReply, AnswerFence> {};
template <>
struct KindOf<ReportSave> : Kind<43, ReportSaveReply, ReportSave> {};

// The data service: to the dispatcher.
template <>
struct KindOf<RegisterDataset> : Kind<50, RegisterDatasetReply, RegisterDataset> {};
template <>
struct KindOf<GetDataset> : Kind<51, GetDatasetReply, GetDataset> {};
template <>
struct KindOf<OpenIteration> : Kind<52, OpenIterationReply, OpenIteration> {};
template <>
struct KindOf<ConsumerPoll> : Kind<53, ConsumerPollReply, ConsumerPoll> {};
template <>
struct KindOf<CloseConsumer> : Kind<54, CloseConsumerReply, CloseConsumer> {};
template <>
struct KindOf<WorkerPoll> : Kind<55, WorkerPollReply, WorkerPoll> {};
template <>
struct KindOf<DataStatus> : Kind<56, DataStatusReply, DataStatus> {};

// The answer to a read is no message of fields (data_chunk.h).
struct RawReply {};

// To a worker.
template <>
struct KindOf<ReadSegment> : Kind<70, RawReply, ReadSegment> {};
template <>
struct KindOf<ShareMemory> : Kind<71, ShareMemoryReply, ShareMemory> {};

}  // namespace lockstep::wire::native
