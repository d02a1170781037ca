#include "lockstep/client/typed.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::client {
namespace {

using ::testing::ElementsAre;

class ChainTest : public ::testing::Test {
 protected:
  Pending Call(int which) {
    return Pending([this, which] { cancelled.push_back(which); });
  }

  Chain chain;
  std::vector<int> cancelled;
};

TEST_F(ChainTest, CancelsTheCallThatIsOnItsWay) {
  chain.Begin([&] { return Call(1); });
  chain.Begin([&] { return Call(2); });
  chain.Cancel();
  EXPECT_THAT(cancelled, ElementsAre(2));
}

TEST_F(ChainTest, CancelsWhatBeginsAfterItWasCancelled) {
  chain.Begin([&] { return Call(1); });
  chain.Cancel();
  chain.Begin([&] { return Call(2); });
  EXPECT_THAT(cancelled, ElementsAre(1, 2));
}

// As when an answer is quicker than the return of the call that asked.
TEST_F(ChainTest, ACallThatIsOverBeforeItsStartReturnsDoesNotHideItsSuccessor) {
  chain.Begin([&] {
    chain.Begin([&] { return Call(2); });
    return Call(1);
  });
  chain.Cancel();
  EXPECT_THAT(cancelled, ElementsAre(2));
}

}  // namespace
}  // namespace lockstep::client
