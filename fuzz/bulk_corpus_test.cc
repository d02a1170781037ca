#include "fuzz/bulk_fuzzer.h"
#include "fuzz/corpus_testing.h"
#include "gtest/gtest.h"

namespace lockstep::fuzz {
namespace {

TEST(BulkCorpus, IsReadWithoutHarm) { ReadCorpus(LOCKSTEP_CORPUS_DIR, ReadBulkLink); }

}  // namespace
}  // namespace lockstep::fuzz
