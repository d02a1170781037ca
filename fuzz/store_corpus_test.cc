#include "fuzz/corpus_testing.h"
#include "fuzz/store_fuzzer.h"
#include "gtest/gtest.h"

namespace lockstep::fuzz {
namespace {

TEST(StoreCorpus, IsReadWithoutHarm) { ReadCorpus(LOCKSTEP_CORPUS_DIR, ReadStoreBytes); }

}  // namespace
}  // namespace lockstep::fuzz
