#include "fuzz/corpus_testing.h"
#include "fuzz/element_fuzzer.h"
#include "gtest/gtest.h"

namespace lockstep::fuzz {
namespace {

TEST(ElementCorpus, IsReadWithoutHarm) { ReadCorpus(LOCKSTEP_CORPUS_DIR, ReadElement); }

}  // namespace
}  // namespace lockstep::fuzz
