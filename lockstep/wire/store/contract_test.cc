// Holds every message of the journal against proto/lockstep/store/v1 with real protobuf.
#include "lockstep/store/v1/records.pb.h"
#include "lockstep/wire/native/contract_suite_test.h"
#include "lockstep/wire/store/messages.h"

namespace lockstep::wire::native::contract {
namespace {

namespace pbs = ::lockstep::store::v1;
namespace ours = ::lockstep::wire::store;

using Messages = testing::Types<
    Pair<ours::RoleSize, pbs::RoleSize>, Pair<ours::JobCreated, pbs::JobCreated>,
    Pair<ours::JobDeleted, pbs::JobDeleted>, Pair<ours::Error, pbs::Error>,
    Pair<ours::Label, pbs::Label>, Pair<ours::MemberValue, pbs::MemberValue>,
    Pair<ours::AttemptBegan, pbs::AttemptBegan>, Pair<ours::AttemptRuns, pbs::AttemptRuns>,
    Pair<ours::AttemptFailed, pbs::AttemptFailed>, Pair<ours::ShutdownEnded, pbs::ShutdownEnded>,
    Pair<ours::MemberChanged, pbs::MemberChanged>, Pair<ours::ProcessChanged, pbs::ProcessChanged>,
    Pair<ours::ErrorKept, pbs::ErrorKept>, Pair<ours::KeySet, pbs::KeySet>,
    Pair<ours::KeyDeleted, pbs::KeyDeleted>, Pair<ours::BarrierEnded, pbs::BarrierEnded>,
    Pair<ours::IndexAgreed, pbs::IndexAgreed>, Pair<ours::SessionChanged, pbs::SessionChanged>,
    Pair<ours::AnswerKept, pbs::AnswerKept>, Pair<ours::OwnerGone, pbs::OwnerGone>,
    Pair<ours::Record, pbs::Record>, Pair<ours::EventKept, pbs::EventKept>,
    Pair<ours::Entry, pbs::Entry>>;
INSTANTIATE_TYPED_TEST_SUITE_P(Store, Contract, Messages);

using DataMessages = testing::Types<
    Pair<ours::DataError, pbs::DataError>, Pair<ours::ReadingPlace, pbs::ReadingPlace>,
    Pair<ours::DataCountersKept, pbs::DataCountersKept>,
    Pair<ours::DatasetRegistered, pbs::DatasetRegistered>,
    Pair<ours::DatasetResolved, pbs::DatasetResolved>,
    Pair<ours::DatasetRetired, pbs::DatasetRetired>,
    Pair<ours::DatasetForgotten, pbs::DatasetForgotten>,
    Pair<ours::IterationOpened, pbs::IterationOpened>,
    Pair<ours::IterationStarted, pbs::IterationStarted>,
    Pair<ours::IterationEnded, pbs::IterationEnded>,
    Pair<ours::IterationCollected, pbs::IterationCollected>,
    Pair<ours::ConsumerJoined, pbs::ConsumerJoined>,
    Pair<ours::ConsumerReplaced, pbs::ConsumerReplaced>,
    Pair<ours::ConsumerFinished, pbs::ConsumerFinished>,
    Pair<ours::ConsumerGone, pbs::ConsumerGone>, Pair<ours::TaskAdded, pbs::TaskAdded>,
    Pair<ours::TaskStarted, pbs::TaskStarted>, Pair<ours::SeatingAgreed, pbs::SeatingAgreed>,
    Pair<ours::SegmentGranted, pbs::SegmentGranted>,
    Pair<ours::ElementsAcknowledged, pbs::ElementsAcknowledged>,
    Pair<ours::LaneTrimmed, pbs::LaneTrimmed>, Pair<ours::SeatingsTrimmed, pbs::SeatingsTrimmed>,
    Pair<ours::LaneClosed, pbs::LaneClosed>, Pair<ours::SegmentCounted, pbs::SegmentCounted>,
    Pair<ours::SegmentRest, pbs::SegmentRest>, Pair<ours::PoolKept, pbs::PoolKept>,
    Pair<ours::LaneKept, pbs::LaneKept>, Pair<ours::GrantKept, pbs::GrantKept>,
    Pair<ours::DataTotalsKept, pbs::DataTotalsKept>, Pair<ours::LeaverKept, pbs::LeaverKept>,
    Pair<ours::FinishersKept, pbs::FinishersKept>, Pair<ours::DataRecord, pbs::DataRecord>>;
INSTANTIATE_TYPED_TEST_SUITE_P(DataService, Contract, DataMessages);

using TorchMessages = testing::Types<Pair<ours::TorchStoreOpened, pbs::TorchStoreOpened>,
                                     Pair<ours::TorchStoreUsed, pbs::TorchStoreUsed>,
                                     Pair<ours::TorchKeySet, pbs::TorchKeySet>,
                                     Pair<ours::TorchValueAppended, pbs::TorchValueAppended>,
                                     Pair<ours::TorchKeyDeleted, pbs::TorchKeyDeleted>,
                                     Pair<ours::TorchQueuePushed, pbs::TorchQueuePushed>,
                                     Pair<ours::TorchQueuePopped, pbs::TorchQueuePopped>,
                                     Pair<ours::TorchStoreCleared, pbs::TorchStoreCleared>,
                                     Pair<ours::TorchGroupCleared, pbs::TorchGroupCleared>,
                                     Pair<ours::TorchRecord, pbs::TorchRecord>>;
INSTANTIATE_TYPED_TEST_SUITE_P(TorchStore, Contract, TorchMessages);

}  // namespace
}  // namespace lockstep::wire::native::contract
