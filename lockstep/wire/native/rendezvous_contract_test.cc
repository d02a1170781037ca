// The messages between members are bytes as protobuf's own.
#include "lockstep/wire/native/rendezvous_pairs.h"

namespace lockstep::wire::native::contract {
namespace {

INSTANTIATE_TYPED_TEST_SUITE_P(Rendezvous, Contract, RendezvousPairs);

}  // namespace
}  // namespace lockstep::wire::native::contract
