// The messages of the data service are bytes as protobuf's own.
#include "lockstep/wire/native/data_pairs.h"
#include "lockstep/wire/native/data_service_pairs.h"
#include "lockstep/wire/native/data_status_pairs.h"

namespace lockstep::wire::native::contract {
namespace {

INSTANTIATE_TYPED_TEST_SUITE_P(Data, Contract, DataPairs);
INSTANTIATE_TYPED_TEST_SUITE_P(DataService, Contract, DataServicePairs);
INSTANTIATE_TYPED_TEST_SUITE_P(DataStatus, Contract, DataStatusPairs);

}  // namespace
}  // namespace lockstep::wire::native::contract
