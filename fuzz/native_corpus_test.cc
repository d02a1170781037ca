#include "fuzz/corpus_testing.h"
#include "fuzz/native_fuzzer.h"
#include "gtest/gtest.h"

namespace lockstep::fuzz {
namespace {

TEST(NativeCorpus, IsReadWithoutHarm) { ReadCorpus(LOCKSTEP_CORPUS_DIR, ReadNative); }

}  // namespace
}  // namespace lockstep::fuzz
