#include "cli/keys.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "sbp/error.h"

namespace boxcar::cli {
namespace {

std::string message(const Key& key, const std::string& text) {
  Request request;
  try {
    set(key, request, "here", text);
  } catch (const Error& e) {
    return e.what();
  }
  return "accepted as " + text_of(key, request);
}

std::string message(const char* section, const char* name, const std::string& text) {
  return message(*find_key(section, name), text);
}

TEST(Keys, EveryOneIsDocumented) {
  std::ifstream in(BOXCAR_SOURCE_DIR "/docs/jobs.md");
  std::stringstream text;
  text << in.rdbuf();
  for (const Key& key : keys()) {
    EXPECT_NE(text.str().find("| " + key.section + " | " + key.name + " | `"), std::string::npos)
        << key.path();
    EXPECT_NE(text.str().find("`" + key.flag + "`"), std::string::npos) << key.flag;
  }
}

TEST(Keys, DocumentedPassesAreThoseThatAre) {
  std::ifstream in(BOXCAR_SOURCE_DIR "/docs/jobs.md");
  std::stringstream text;
  text << in.rdbuf();
  std::string names;
  for (const std::string& name : ir::pass_names()) names += (names.empty() ? "" : ", ") + name;
  EXPECT_NE(text.str().find("switched off by name, of " + names + ";"), std::string::npos) << names;
}

TEST(Keys, FlagsAreUnique) {
  std::set<std::string> seen;
  for (const Key& key : keys()) {
    EXPECT_TRUE(seen.insert(key.flag).second) << key.flag;
    if (key.alias.empty()) continue;
    EXPECT_TRUE(seen.insert(key.alias).second) << key.alias;
  }
}

TEST(Keys, ReadBack) {
  const auto request_of = [](const Key& key) {
    Request request;
    if (!key.families.empty()) request.job.model = ir::models::default_model(key.families.front());
    return request;
  };
  for (const Key& key : keys()) {
    std::string text = text_of(key, request_of(key));
    if (key.required || text == "0" || text.empty() || text == "-1") continue;  // not yet filled in
    Request other = request_of(key);
    set(key, other, "here", text);
    EXPECT_EQ(text_of(key, other), text) << key.path();
  }
}

TEST(Keys, OfAnotherKindOfModelAreAFault) {
  Request request;
  try {
    text_of(*find_key("model", "channels"), request);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "model: a model of family gpt is no convolutional network");
  }
}

TEST(Keys, SayTheirValuesAndDefaults) {
  auto said = [](const char* section, const char* name) {
    const Key& key = *find_key(section, name);
    return key.values() + " [" + key.default_text() + "]";
  };
  EXPECT_EQ(said("model", "layers"), "1..2000 [needed]");
  EXPECT_EQ(said("model", "kv_heads"), "1..10000 [heads]");
  EXPECT_EQ(said("model", "mlp"), "gelu|swiglu [gelu; llama: swiglu]");
  EXPECT_EQ(said("model", "dropout"), "0..0.99 [0.1; llama: 0]");
  EXPECT_EQ(said("cluster", "preset"), "NAME [needed]");
  EXPECT_EQ(said("parallel", "tp"), "1..10000 [1]");
  EXPECT_EQ(said("parallel", "stage_layers"), "N,N,... [balanced]");
  EXPECT_EQ(said("parallel", "overlap_grad"), "true|false [true]");
  EXPECT_EQ(said("parallel", "recompute_layers"), "N,N,... [all]");
  EXPECT_EQ(said("train", "precision"), "fp32|tf32|fp16|bf16|fp64|fp8 [fp16]");
  EXPECT_EQ(said("train", "off"), "PASS,... [none]");
}

TEST(Keys, SayWhatIsAllowed) {
  EXPECT_EQ(message("parallel", "tp", "8"), "accepted as 8");
  EXPECT_EQ(message("parallel", "tp", "eight"),
            "here: got \"eight\", expected a whole number from 1 to 10000");
  EXPECT_EQ(message("parallel", "tp", "1.5"), "here: got \"1.5\", expected a whole number from 1 to 10000");
  EXPECT_EQ(message("parallel", "tp", "-8"), "here: got \"-8\", expected a whole number from 1 to 10000");
  EXPECT_EQ(
      message("parallel", "tp", "8x"),
      "here: got \"8x\", expected a whole number from 1 to 10000; k behind it stands for 1,024 and M for "
      "1,024 x 1,024, as in 8k");
  for (const char* text : {"8k", "8K"}) EXPECT_EQ(message("model", "seq", text), "accepted as 8192");
  for (const char* text : {"2M", "2m"}) EXPECT_EQ(message("model", "seq", text), "accepted as 2097152");
  EXPECT_EQ(message("parallel", "tp", "nan"), "here: got \"nan\", expected a whole number from 1 to 10000");
  EXPECT_EQ(message("model", "dropout", "0.5"), "accepted as 0.5");
  EXPECT_EQ(message("model", "dropout", "2"),
            "here: got \"2\", expected a number from 0 to 0.99; 2% is 0.02");
  EXPECT_EQ(message("parallel", "sequence_parallel", ""), "accepted as true");
  EXPECT_EQ(message("parallel", "sequence_parallel", "True"), "accepted as true");
  EXPECT_EQ(message("parallel", "sequence_parallel", "FALSE"), "accepted as false");
  EXPECT_EQ(message("parallel", "sequence_parallel", "maybe"), "here: got \"maybe\", expected true or false");
  EXPECT_EQ(message("parallel", "stage_layers", "[7, 8,8]"), "accepted as [7, 8, 8]");
  EXPECT_EQ(message("parallel", "recompute_layers", "4,2,1,0"), "accepted as [4, 2, 1, 0]");
  EXPECT_EQ(message("parallel", "recompute_layers", "2x3,0"), "accepted as [2, 2, 2, 0]");
  EXPECT_EQ(message("parallel", "recompute_layers", "2x0"),
            "here: got \"0\", expected a whole number from 1 to 10000");
  EXPECT_EQ(message("parallel", "recompute_layers", "2x"),
            "here: got \"\", expected a whole number from 1 to 10000");
  EXPECT_EQ(message("parallel", "recompute_layers", "3"), "accepted as [3]");
  EXPECT_EQ(message("parallel", "recompute_layers", "all"), "accepted as []");
  EXPECT_EQ(message("parallel", "recompute_others", "full"), "here: got \"full\", expected none, selective");
  EXPECT_EQ(message("parallel", "stage_layers", "7,,8"),
            "here: got \"\", expected a whole number from 0 to 10000");
  EXPECT_EQ(message("parallel", "attention", "flash"), "accepted as flash");
  EXPECT_EQ(message("train", "precision", "fp4"),
            "here: got \"fp4\", expected fp32, tf32, fp16, bf16, fp64, fp8 (did you mean fp64?)");
  EXPECT_EQ(message("parallel", "recompute", "ful"),
            "here: got \"ful\", expected none, selective, full, ops (did you mean full?)");
}

}  // namespace
}  // namespace boxcar::cli
