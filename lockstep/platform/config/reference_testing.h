// Holds the reference of options in docs/cli.md against the tables. For tests.
#pragma once

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/platform/config/show.h"

namespace lockstep::config {

// The document has the reference between the lines `<!-- options: SECTION -->` and
// `<!-- end -->`. With the variable LOCKSTEP_UPDATE_GOLDEN it is written there instead.
inline void ExpectReference(const std::string& document, const OptionTable& table) {
  std::ostringstream contents;
  contents << std::ifstream(document).rdbuf();
  std::string text = contents.str();
  const std::string begin = "<!-- options: " + table.section() + " -->\n";
  const size_t from = text.find(begin);
  ASSERT_NE(from, std::string::npos) << "no " << begin << " in " << document;
  const size_t to = text.find("<!-- end -->", from);
  ASSERT_NE(to, std::string::npos);
  const std::string rows = "\n" + Reference(table) + "\n";
  if (std::getenv("LOCKSTEP_UPDATE_GOLDEN") != nullptr) {
    text.replace(from + begin.size(), to - from - begin.size(), rows);
    std::ofstream(document) << text;
    return;
  }
  EXPECT_EQ(text.substr(from + begin.size(), to - from - begin.size()), rows)
      << "run the test with LOCKSTEP_UPDATE_GOLDEN=1";
}

}  // namespace lockstep::config
