// docs/example.md shows a program and its output: both are exact.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

namespace boxcar {
namespace {

std::string content_of(const std::string& path) {
  std::ifstream in(path);
  EXPECT_TRUE(in) << path;
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// The page's fenced blocks of this language, joined by an empty line.
std::string blocks(const std::string& page, const std::string& language) {
  std::stringstream in(page);
  std::string line, text;
  while (std::getline(in, line)) {
    if (line != "```" + language) continue;
    if (!text.empty()) text += '\n';
    while (std::getline(in, line) && line != "```") text += line + '\n';
  }
  return text;
}

std::string output_of(const std::string& program) {
  std::string text;
  FILE* pipe = popen(program.c_str(), "r");
  EXPECT_NE(pipe, nullptr);
  char part[4096];
  for (size_t n = 0; (n = fread(part, 1, sizeof part, pipe)) > 0;) text.append(part, n);
  EXPECT_EQ(pclose(pipe), 0);
  return text;
}

const std::string docs = BOXCAR_SOURCE_DIR "/docs/";

TEST(Example, PageHasTheProgram) {
  EXPECT_EQ(blocks(content_of(docs + "example.md"), "cpp"), content_of(docs + "examples/two_products.cpp"));
}

TEST(OwnModelPage, HasTheExample) {
  EXPECT_EQ(blocks(content_of(docs + "own-model.md"), "text"), content_of(docs + "examples/mlp.txt"));
}

TEST(Example, PageHasWhatTheProgramPrints) {
  EXPECT_EQ(blocks(content_of(docs + "example.md"), "text"), output_of("'" BOXCAR_EXAMPLES "/two_products'"));
}

}  // namespace
}  // namespace boxcar
