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
    Pair<ours::AnswerKept, pbs::AnswerKept>, Pair<ours::Record, pbs::Record>,
    Pair<ours::Entry, pbs::Entry>>;
INSTANTIATE_TYPED_TEST_SUITE_P(Store, Contract, Messages);

}  // namespace
}  // namespace lockstep::wire::native::contract
