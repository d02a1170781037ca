#include "fuzz/corpus_testing.h"
#include "fuzz/stock_fuzzer.h"
#include "gtest/gtest.h"

namespace lockstep::fuzz {
namespace {

TEST(StockCorpus, IsReadWithoutHarm) { ReadCorpus(LOCKSTEP_CORPUS_DIR, ReadStock); }

}  // namespace
}  // namespace lockstep::fuzz
