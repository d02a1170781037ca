// Holds every message against proto/lockstep/v1 with real protobuf; those between members are in
// rendezvous_contract_test.cc.
#include "lockstep/v1/coordination.pb.h"
#include "lockstep/v1/crew.pb.h"
#include "lockstep/v1/jobs.pb.h"
#include "lockstep/v1/link.pb.h"
#include "lockstep/v1/preemption.pb.h"
#include "lockstep/v1/process.pb.h"
#include "lockstep/v1/status.pb.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/contract_suite_test.h"
#include "lockstep/wire/native/coordination_messages.h"
#include "lockstep/wire/native/crew_messages.h"
#include "lockstep/wire/native/job_messages.h"
#include "lockstep/wire/native/link_messages.h"
#include "lockstep/wire/native/preemption_messages.h"
#include "lockstep/wire/native/process_messages.h"
#include "lockstep/wire/native/status_messages.h"

namespace lockstep::wire::native::contract {
namespace {

using Messages = testing::Types<
    Pair<Hello, v1::Hello>, Pair<Welcome, v1::Welcome>, Pair<Refused, v1::Refused>,
    Pair<Farewell, v1::Farewell>, Pair<ErrorReply, v1::ErrorReply>,
    Pair<ErrorDetail, v1::ErrorDetail>, Pair<StatusRequest, v1::StatusRequest>,
    Pair<SetAsideJob, v1::SetAsideJob>, Pair<StatusReply, v1::StatusReply>,
    Pair<MemoryHolder, v1::MemoryHolder>, Pair<MemoryStatus, v1::MemoryStatus>,
    Pair<ServerStatus, v1::ServerStatus>, Pair<JobStatus, v1::JobStatus>,
    Pair<MemberStatus, v1::MemberStatus>, Pair<BarrierStatus, v1::BarrierStatus>,
    Pair<KeyWaitStatus, v1::KeyWaitStatus>, Pair<ErrorStatus, v1::ErrorStatus>,
    Pair<StoreWaiter, v1::StoreWaiter>, Pair<StoreWait, v1::StoreWait>,
    Pair<StoreStatus, v1::StoreStatus>, Pair<StacksTaken, v1::StacksTaken>,
    Pair<OpenStore, v1::OpenStore>, Pair<OpenStoreReply, v1::OpenStoreReply>,
    Pair<RoleSize, v1::RoleSize>, Pair<CreateJob, v1::CreateJob>,
    Pair<CreateJobReply, v1::CreateJobReply>, Pair<DeleteJob, v1::DeleteJob>,
    Pair<DeleteJobReply, v1::DeleteJobReply>, Pair<JobEvent, v1::JobEvent>,
    Pair<WatchEvents, v1::WatchEvents>, Pair<WatchEventsReply, v1::WatchEventsReply>,
    Pair<ProcessReport, v1::ProcessReport>, Pair<ProcessReportReply, v1::ProcessReportReply>,
    Pair<OpenSession, v1::OpenSession>, Pair<OpenSessionReply, v1::OpenSessionReply>,
    Pair<Answered, v1::Answered>, Pair<CloseSession, v1::CloseSession>,
    Pair<CloseSessionReply, v1::CloseSessionReply>, Pair<Label, v1::Label>,
    Pair<JoinJob, v1::JoinJob>, Pair<JoinJobReply, v1::JoinJobReply>, Pair<LeaveJob, v1::LeaveJob>,
    Pair<LeaveJobReply, v1::LeaveJobReply>, Pair<ReportProgress, v1::ReportProgress>,
    Pair<ReportProgressReply, v1::ReportProgressReply>, Pair<PollForError, v1::PollForError>,
    Pair<PollForErrorReply, v1::PollForErrorReply>, Pair<ReportError, v1::ReportError>,
    Pair<ReportErrorReply, v1::ReportErrorReply>, Pair<Barrier, v1::Barrier>,
    Pair<BarrierValue, v1::BarrierValue>, Pair<BarrierReply, v1::BarrierReply>,
    Pair<CancelBarrier, v1::CancelBarrier>, Pair<CancelBarrierReply, v1::CancelBarrierReply>,
    Pair<AgreeOnIndex, v1::AgreeOnIndex>, Pair<AgreeOnIndexReply, v1::AgreeOnIndexReply>,
    Pair<GetAliveMembers, v1::GetAliveMembers>, Pair<AliveMember, v1::AliveMember>,
    Pair<GetAliveMembersReply, v1::GetAliveMembersReply>, Pair<Entry, v1::Entry>,
    Pair<GetKey, v1::GetKey>, Pair<GetKeyReply, v1::GetKeyReply>, Pair<GetKeys, v1::GetKeys>,
    Pair<GetKeysReply, v1::GetKeysReply>, Pair<SetKey, v1::SetKey>,
    Pair<SetKeyReply, v1::SetKeyReply>, Pair<CompareAndSetKey, v1::CompareAndSetKey>,
    Pair<CompareAndSetKeyReply, v1::CompareAndSetKeyReply>, Pair<IncrementKey, v1::IncrementKey>,
    Pair<IncrementKeyReply, v1::IncrementKeyReply>, Pair<MaxKey, v1::MaxKey>,
    Pair<MaxKeyReply, v1::MaxKeyReply>, Pair<DeleteKey, v1::DeleteKey>,
    Pair<DeleteKeyReply, v1::DeleteKeyReply>, Pair<ListKeys, v1::ListKeys>,
    Pair<ListKeysReply, v1::ListKeysReply>, Pair<WatchKeys, v1::WatchKeys>,
    Pair<KeyChange, v1::KeyChange>, Pair<WatchKeysReply, v1::WatchKeysReply>,
    Pair<WatchJob, v1::WatchJob>, Pair<WatchJobReply, v1::WatchJobReply>,
    Pair<PreemptionNotice, v1::PreemptionNotice>, Pair<PreemptionState, v1::PreemptionState>,
    Pair<SyncMember, v1::SyncMember>, Pair<PreemptionStatus, v1::PreemptionStatus>,
    Pair<NotifyPreemption, v1::NotifyPreemption>,
    Pair<NotifyPreemptionReply, v1::NotifyPreemptionReply>,
    Pair<WatchPreemption, v1::WatchPreemption>,
    Pair<WatchPreemptionReply, v1::WatchPreemptionReply>, Pair<AnswerFence, v1::AnswerFence>,
    Pair<AnswerFenceReply, v1::AnswerFenceReply>, Pair<ReportSave, v1::ReportSave>,
    Pair<ReportSaveReply, v1::ReportSaveReply>, Pair<PollCrew, v1::PollCrew>,
    Pair<PollCrewReply, v1::PollCrewReply>, Pair<TellCrew, v1::TellCrew>,
    Pair<TellCrewReply, v1::TellCrewReply>>;
INSTANTIATE_TYPED_TEST_SUITE_P(Native, Contract, Messages);

}  // namespace
}  // namespace lockstep::wire::native::contract
