// Holds the messages between members against proto/lockstep/v1 with real protobuf.
#include "lockstep/v1/rendezvous.pb.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/contract_suite_test.h"
#include "lockstep/wire/native/rendezvous_messages.h"
#include "lockstep/wire/native/rendezvous_report.h"

namespace lockstep::wire::native::contract {
namespace {

using Messages = testing::Types<
    Pair<Card, v1::Card>, Pair<PeerHello, v1::PeerHello>, Pair<PeerWelcome, v1::PeerWelcome>,
    Pair<SegmentNotice, v1::SegmentNotice>, Pair<FetchChunk, v1::FetchChunk>,
    Pair<Description, v1::Description>, Pair<ArenaPlace, v1::ArenaPlace>,
    Pair<FetchPlace, v1::FetchPlace>, Pair<Placement, v1::Placement>, Pair<Failure, v1::Failure>,
    Pair<Want, v1::Want>, Pair<Unwant, v1::Unwant>, Pair<Offer, v1::Offer>, Pair<Taken, v1::Taken>,
    Pair<Released, v1::Released>, Pair<Credit, v1::Credit>, Pair<Refuse, v1::Refuse>,
    Pair<AbortStep, v1::AbortStep>, Pair<StepClosed, v1::StepClosed>,
    Pair<PeerMessage, v1::PeerMessage>, Pair<RendezvousKey, v1::RendezvousKey>,
    Pair<RendezvousPeer, v1::RendezvousPeer>, Pair<RendezvousReport, v1::RendezvousReport>>;
INSTANTIATE_TYPED_TEST_SUITE_P(Rendezvous, Contract, Messages);

}  // namespace
}  // namespace lockstep::wire::native::contract
