// The messages are the same bytes as protobuf's own, and are read as protobuf reads them. The pairs
// are made by scripts/generate_messages.py. Those of the data service and between members stand in
// files of their own: templates over all messages take long to compile.
#include "lockstep/wire/native/coordination_pairs.h"
#include "lockstep/wire/native/job_pairs.h"
#include "lockstep/wire/native/link_pairs.h"
#include "lockstep/wire/native/node_group_pairs.h"
#include "lockstep/wire/native/preemption_pairs.h"
#include "lockstep/wire/native/process_pairs.h"
#include "lockstep/wire/native/status_pairs.h"

namespace lockstep::wire::native::contract {
namespace {

INSTANTIATE_TYPED_TEST_SUITE_P(Coordination, Contract, CoordinationPairs);
INSTANTIATE_TYPED_TEST_SUITE_P(NodeGroup, Contract, NodeGroupPairs);
INSTANTIATE_TYPED_TEST_SUITE_P(Job, Contract, JobPairs);
INSTANTIATE_TYPED_TEST_SUITE_P(Link, Contract, LinkPairs);
INSTANTIATE_TYPED_TEST_SUITE_P(Preemption, Contract, PreemptionPairs);
INSTANTIATE_TYPED_TEST_SUITE_P(Process, Contract, ProcessPairs);
INSTANTIATE_TYPED_TEST_SUITE_P(Status, Contract, StatusPairs);

}  // namespace
}  // namespace lockstep::wire::native::contract
