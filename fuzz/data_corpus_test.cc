#include "fuzz/corpus_testing.h"
#include "fuzz/data_fuzzer.h"
#include "gtest/gtest.h"

namespace lockstep::fuzz {
namespace {

TEST(DataCorpus, IsReadWithoutHarm) { ReadCorpus(LOCKSTEP_CORPUS_DIR, ReadData); }

}  // namespace
}  // namespace lockstep::fuzz
