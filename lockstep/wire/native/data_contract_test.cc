// Holds the messages of the data service against proto/lockstep/v1 with real protobuf.
#include "lockstep/v1/data.pb.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/contract_suite_test.h"
#include "lockstep/wire/native/data_messages.h"
#include "lockstep/wire/native/data_service_messages.h"
#include "lockstep/wire/native/data_status_messages.h"

namespace lockstep::wire::native::contract {
namespace {

using Definitions =
    testing::Types<Pair<DataIntegers, v1::DataIntegers>, Pair<DataTexts, v1::DataTexts>,
                   Pair<DataAttribute, v1::DataAttribute>, Pair<DataNode, v1::DataNode>,
                   Pair<DataDefinition, v1::DataDefinition>, Pair<DataFile, v1::DataFile>,
                   Pair<DataFileSpec, v1::DataFileSpec>, Pair<DataManifest, v1::DataManifest>,
                   Pair<ReadSegment, v1::ReadSegment>, Pair<ShareMemory, v1::ShareMemory>,
                   Pair<ShareMemoryReply, v1::ShareMemoryReply>>;
INSTANTIATE_TYPED_TEST_SUITE_P(DataDefinitions, Contract, Definitions);
using Service = testing::Types<
    Pair<RegisterDataset, v1::RegisterDataset>,
    Pair<RegisterDatasetReply, v1::RegisterDatasetReply>, Pair<GetDataset, v1::GetDataset>,
    Pair<GetDatasetReply, v1::GetDatasetReply>, Pair<IterationSpec, v1::IterationSpec>,
    Pair<LaneAck, v1::LaneAck>, Pair<OpenIteration, v1::OpenIteration>,
    Pair<OpenIterationReply, v1::OpenIterationReply>, Pair<LaneProgress, v1::LaneProgress>,
    Pair<ReadingPlace, v1::ReadingPlace>, Pair<SegmentCount, v1::SegmentCount>,
    Pair<DataError, v1::DataError>, Pair<SegmentFailure, v1::SegmentFailure>,
    Pair<ConsumerPoll, v1::ConsumerPoll>, Pair<SegmentGrant, v1::SegmentGrant>,
    Pair<DataLane, v1::DataLane>, Pair<RoundSeating, v1::RoundSeating>,
    Pair<WorkerAddress, v1::WorkerAddress>, Pair<ReturnedSegment, v1::ReturnedSegment>,
    Pair<ConsumerPollReply, v1::ConsumerPollReply>, Pair<CloseConsumer, v1::CloseConsumer>,
    Pair<CloseConsumerReply, v1::CloseConsumerReply>, Pair<ResolveReport, v1::ResolveReport>,
    Pair<ProcessingTime, v1::ProcessingTime>, Pair<WorkerPoll, v1::WorkerPoll>,
    Pair<WorkerTask, v1::WorkerTask>, Pair<WorkerPollReply, v1::WorkerPollReply>>;
INSTANTIATE_TYPED_TEST_SUITE_P(DataService, Contract, Service);

using Status =
    testing::Types<Pair<DataStatus, v1::DataStatus>, Pair<DatasetStatus, v1::DatasetStatus>,
                   Pair<WorkerStatus, v1::WorkerStatus>, Pair<ConsumerStatus, v1::ConsumerStatus>,
                   Pair<TaskStatus, v1::TaskStatus>, Pair<IterationStatus, v1::IterationStatus>,
                   Pair<DataStatusReply, v1::DataStatusReply>>;
INSTANTIATE_TYPED_TEST_SUITE_P(DataStatus, Contract, Status);

}  // namespace
}  // namespace lockstep::wire::native::contract
