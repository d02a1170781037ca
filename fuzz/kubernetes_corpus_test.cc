#include "fuzz/corpus_testing.h"
#include "fuzz/kubernetes_fuzzer.h"
#include "gtest/gtest.h"

namespace lockstep::fuzz {
namespace {

TEST(KubernetesCorpus, IsReadWithoutHarm) { ReadCorpus(LOCKSTEP_CORPUS_DIR, ReadKubernetes); }

}  // namespace
}  // namespace lockstep::fuzz
