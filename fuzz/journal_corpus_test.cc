#include "fuzz/corpus_testing.h"
#include "fuzz/journal_fuzzer.h"
#include "gtest/gtest.h"

namespace lockstep::fuzz {
namespace {

TEST(JournalCorpus, IsReadWithoutHarm) { ReadCorpus(LOCKSTEP_CORPUS_DIR, ReadJournal); }

}  // namespace
}  // namespace lockstep::fuzz
