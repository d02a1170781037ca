#include "lockstep/data/engine/function_operator.h"

#include <cstring>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/data/engine/engine_testing.h"
#include "lockstep/data/engine/frame.h"
#include "lockstep/data/plan/error.h"

namespace lockstep::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Of a whole number n: an array of n % 3 times n; fails for 5.
class Repeats final : public FunctionRunner {
 public:
  absl::Status Check(const std::string&) const override { return absl::OkStatus(); }
  absl::StatusOr<std::vector<FunctionResult>> Call(const Function&,
                                                   std::span<const Element> elements) override {
    std::vector<FunctionResult> results;
    for (const Element& element : elements) {
      const auto view = *element.Parse();
      const int64_t n = *reinterpret_cast<const int64_t*>(view.leaf(0).bytes.data());
      if (n == 5) {
        results.push_back({.error = "I do not like 5"});
        continue;
      }
      const FrameLeaf leaf = {
          .type = plan::DType::kInt64, .dims = {n % 3}, .bytes = static_cast<uint64_t>(n % 3) * 8};
      const FrameLayout layout = LayOut({&leaf, 1});
      auto memory = *heap_(layout.bytes);
      for (int64_t i = 0; i < n % 3; ++i) {
        std::memcpy(memory->data() + layout.offsets[0] + i * 8, &n, 8);
      }
      WriteHead(memory->data(), {&leaf, 1}, layout, 0, 0, 0);
      results.push_back({.element = Element(memory, 0, layout.bytes)});
    }
    return results;
  }

 private:
  const Allocator heap_ = HeapAllocator();
};

plan::Builder Numbers(const std::string& spec) {
  plan::Builder builder;
  builder.Range(8).Behind("map_python", {{"function", std::string("m:f")}, {"spec", spec}});
  return builder;
}

DatasetOptions Options() {
  DatasetOptions options;
  options.functions = std::make_shared<Repeats>();
  return options;
}

TEST(FunctionOperator, ResultsKeepTheirOrderWhateverTheirShape) {
  plan::Builder builder = Numbers("int64[?]");
  builder.Set("on_error", std::string("skip"));
  EXPECT_THAT(*All<int64_t>(*OpenDataset(builder, Options())), ElementsAre(1, 2, 2, 4, 7));
}

TEST(FunctionOperator, WhatFailsIsToldWithItsPosition) {
  const auto error = All<int64_t>(*OpenDataset(Numbers("int64[?]"), Options())).status();
  EXPECT_EQ(plan::ReasonOf(error), plan::kFunctionFailed);
  EXPECT_THAT(std::string(error.message()), HasSubstr("at position 5: I do not like 5"));
}

TEST(FunctionOperator, WhatReturnsSomethingElseFails) {
  const auto error = All<int64_t>(*OpenDataset(Numbers("int64[2]"), Options())).status();
  EXPECT_THAT(std::string(error.message()),
              HasSubstr("m:f returned int64[0], and its spec says int64[2]"));
}

TEST(FunctionOperator, ShapesThatDifferMakeNoBatch) {
  plan::Builder builder = Numbers("int64[?]");
  builder.Set("on_error", std::string("skip")).Count("batch", 2);
  const auto error = All<int64_t>(*OpenDataset(builder, Options())).status();
  EXPECT_THAT(std::string(error.message()), HasSubstr("cannot be put into one batch"));
}

TEST(FunctionOperator, IsRefusedWhereNoFunctionsRun) {
  EXPECT_THAT(std::string(OpenDataset(Numbers("int64[?]")).status().message()),
              HasSubstr("Python functions are not run here"));
}

}  // namespace
}  // namespace lockstep::engine
