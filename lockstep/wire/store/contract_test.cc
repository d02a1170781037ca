// The messages of the journal are bytes as protobuf's own.
#include "lockstep/wire/store/data_records_pairs.h"
#include "lockstep/wire/store/records_pairs.h"
#include "lockstep/wire/store/torch_records_pairs.h"

namespace lockstep::wire::native::contract {
namespace {

INSTANTIATE_TYPED_TEST_SUITE_P(Records, Contract, RecordsPairs);
INSTANTIATE_TYPED_TEST_SUITE_P(DataRecords, Contract, DataRecordsPairs);
INSTANTIATE_TYPED_TEST_SUITE_P(TorchRecords, Contract, TorchRecordsPairs);

}  // namespace
}  // namespace lockstep::wire::native::contract
