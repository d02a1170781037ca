#include "lockstep/data/plan/expression.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::plan {
namespace {

using ::testing::HasSubstr;

ElementSpec Input() {
  return *ParseSpec("x:float32[3];i:int32[];u:uint8[];b:bool[];t:text[];w:uint64[];h:float16[]");
}

std::string TypeOf(const std::string& text) {
  const auto compiled = CompileMap(text, Input());
  return compiled.ok() ? ToText(compiled->spec) : std::string(compiled.status().message());
}

TEST(Expression, TypesGoAsNumPys) {
  EXPECT_EQ(TypeOf("(add (get \"i\") 1)"), "int32[]");
  EXPECT_EQ(TypeOf("(add (get \"i\") 1.5)"), "float64[]");
  EXPECT_EQ(TypeOf("(mul (get \"x\") 2)"), "float32[3]");
  EXPECT_EQ(TypeOf("(mul (get \"x\") (get \"i\"))"), "float64[3]");
  EXPECT_EQ(TypeOf("(mul (get \"x\") (get \"u\"))"), "float32[3]");
  EXPECT_EQ(TypeOf("(div (get \"i\") 2)"), "float64[]");
  EXPECT_EQ(TypeOf("(gt (get \"x\") 0)"), "bool[3]");
  EXPECT_EQ(TypeOf("(cast (get \"u\") \"float32\")"), "float32[]");
  EXPECT_EQ(TypeOf("(sum (get \"u\"))"), "int64[]");
  EXPECT_EQ(TypeOf("(mean (get \"x\"))"), "float32[]");
  EXPECT_EQ(TypeOf("(length (get \"t\"))"), "int64[]");
  EXPECT_EQ(TypeOf("(slice (get \"x\") 1 -1)"), "float32[1]");
  EXPECT_EQ(TypeOf("(index (get \"x\") -1)"), "float32[]");
  EXPECT_EQ(TypeOf("(where (get \"b\") (get \"u\") 0)"), "uint8[]");
  EXPECT_EQ(TypeOf("(record \"a\" (get \"t\") \"b\" (neg (get \"x\")))"), "a:text[];b:float32[3]");
}

TEST(Expression, SaysWhatIsWrong) {
  EXPECT_THAT(TypeOf("(add (get \"i\")"), HasSubstr("a ')' is missing"));
  EXPECT_THAT(TypeOf("(add (get \"i\") 1) 2"), HasSubstr("something follows"));
  EXPECT_THAT(TypeOf("(get \"q\")"), HasSubstr("no leaf 'q'"));
  EXPECT_THAT(TypeOf("(add (get \"t\") 1)"), HasSubstr("nothing can be computed with text"));
  EXPECT_THAT(TypeOf("(add (get \"h\") 1)"), HasSubstr("cast it to float32 first"));
  EXPECT_THAT(TypeOf("(add (get \"w\") (get \"i\"))"), HasSubstr("cast one of them"));
  EXPECT_THAT(TypeOf("(add (get \"u\") 300)"), HasSubstr("does not fit into uint8"));
  EXPECT_THAT(TypeOf("(and (get \"i\") (get \"b\"))"), HasSubstr("must be bool"));
  EXPECT_THAT(TypeOf("(index (get \"x\") 3)"), HasSubstr("not within"));
  EXPECT_THAT(TypeOf("_"), HasSubstr("write (get"));
  EXPECT_THAT(TypeOf("((neg 1))"), HasSubstr("a list begins with"));
  std::string deep;
  for (int i = 0; i < 200; ++i) deep += "(neg ";
  EXPECT_THAT(TypeOf(deep), HasSubstr("nested too deep"));
  EXPECT_THAT(std::string(CompileFilter("(get \"x\")", Input()).status().message()),
              HasSubstr("one bool"));
}

}  // namespace
}  // namespace lockstep::plan
