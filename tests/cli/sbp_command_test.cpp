#include "cli/sbp_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "ir/op.h"
#include "sbp/error.h"

namespace boxcar::cli {
namespace {

using nlohmann::json;

std::string run(std::vector<std::string> arguments) {
  CLI::App app("", "boxcar");
  std::ostringstream out;
  add_sbp_command(app, out);
  arguments.insert(arguments.begin(), "sbp");
  std::reverse(arguments.begin(), arguments.end());  // CLI11's order
  app.parse(std::move(arguments));
  return out.str();
}

// The whole error message; "no error" and the output if nothing failed.
std::string message(const std::vector<std::string>& arguments) {
  try {
    return "no error: " + run(arguments);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::bad_input);
    return error.what();
  } catch (const CLI::ParseError& error) {
    return error.what();
  }
}

std::string rules_message(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "rules");
  return message(arguments);
}

std::string box_message(std::vector<std::string> changes) {
  std::vector<std::string> arguments{"box"};
  for (const auto& [flag, value] : {std::pair("--shape", "8x6"), std::pair("--from", "S(0)"),
                                    std::pair("--to", "B"), std::pair("--from-devices", "0-3")}) {
    if (std::find(changes.begin(), changes.end(), flag) != changes.end()) continue;
    arguments.insert(arguments.end(), {flag, value});
  }
  arguments.insert(arguments.end(), changes.begin(), changes.end());
  return message(arguments);
}

TEST(SbpOps, ListsTheRegistry) {
  std::string names;
  for (const ir::OpDef& def : ir::all_ops()) names += def.name + "\n";
  EXPECT_EQ(run({"ops"}), names);
  const json ops = json::parse(run({"ops", "--json"}));
  EXPECT_EQ(ops["schema_version"], 1);
  EXPECT_EQ(ops["ops"].size(), ir::all_ops().size());
}

// Table 1 of the paper.
TEST(SbpRules, Matmul) {
  EXPECT_EQ(run({"rules", "matmul", "4x6", "6x8", "--devices", "2"}),
            "B, B -> B\nS(0), B -> S(0)\nB, S(1) -> S(1)\nS(1), S(0) -> P(sum)\n"
            "P(sum), B -> P(sum)\nB, P(sum) -> P(sum)\n");
  EXPECT_EQ(
      run({"rules", "matmul", "4x6", "6x8", "--devices", "2", "--json"}),
      R"~({"schema_version":1,"rules":[{"inputs":["B","B"],"outputs":["B"]},{"inputs":["S(0)","B"],"outputs":["S(0)"]},)~"
      R"~({"inputs":["B","S(1)"],"outputs":["S(1)"]},{"inputs":["S(1)","S(0)"],"outputs":["P(sum)"]},)~"
      R"~({"inputs":["P(sum)","B"],"outputs":["P(sum)"]},{"inputs":["B","P(sum)"],"outputs":["P(sum)"]}]})~"
      "\n");
}

// Table 3 of the paper, among others.
TEST(SbpRules, OnAMeshOfTwoDimensions) {
  const std::string rules = run({"rules", "matmul", "4x6", "6x8", "--devices", "2x2"});
  EXPECT_EQ(std::count(rules.begin(), rules.end(), '\n'), 34);
  EXPECT_THAT(rules, testing::StartsWith("(B, B), (B, B) -> (B, B)\n(B, S(0)), (B, B) -> (B, S(0))\n"));
  EXPECT_THAT(rules, testing::HasSubstr("\n(S(0), B), (B, S(1)) -> (S(0), S(1))\n"));
  EXPECT_THAT(rules, testing::HasSubstr("\n(S(0), S(1)), (B, S(0)) -> (S(0), P(sum))\n"));
  EXPECT_THAT(
      run({"rules", "matmul", "4x6", "6x8", "--devices", "2x2", "--json"}),
      testing::StartsWith(
          R"~({"schema_version":1,"rules":[{"inputs":[["B","B"],["B","B"]],"outputs":[["B","B"]]},)~"));
}

TEST(SbpRules, AttributesAndTypes) {
  EXPECT_THAT(run({"rules", "matmul", "4x6", "8x6", "--attr", "transpose_b=true"}),
              testing::HasSubstr("B, S(0) -> S(1)\n"));
  EXPECT_THAT(run({"rules", "embedding", "10x4", "6"}), testing::HasSubstr("S(0), B -> P(sum)\n"));
  EXPECT_EQ(run({"rules", "embedding", "10x4", "6:int32", "--dtype", "float16"}),
            run({"rules", "embedding", "10x4", "6"}));
  EXPECT_EQ(run({"rules", "neg", "scalar"}).substr(0, 7), "B -> B\n");
}

// Every op of the registry answers for its own first example.
TEST(SbpRules, EveryOpAnswers) {
  for (const ir::OpDef& def : ir::all_ops()) {
    SCOPED_TRACE(def.name);
    const ir::Sample sample = def.samples([] { return int64_t{4}; }).at(0);
    std::vector<std::string> arguments{"rules", def.name, "--json"};
    for (const ir::TensorType& type : sample.inputs) {
      std::string shape;
      for (const int64_t extent : type.shape) shape += (shape.empty() ? "" : "x") + std::to_string(extent);
      arguments.push_back((shape.empty() ? "scalar" : shape) + ":" + ir::to_text(type.dtype));
    }
    for (const auto& [name, value] : sample.attrs) {
      arguments.push_back("--attr");
      arguments.push_back(name + "=" + ir::to_text(value));
    }
    EXPECT_FALSE(json::parse(run(arguments))["rules"].empty());
  }
}

// Any number of operands of any rank: an answer, or one of our messages.
TEST(SbpRules, OperandsThatDoNotFitAreRefused) {
  std::mt19937_64 random(1);
  const auto draw = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  for (const ir::OpDef& def : ir::all_ops())
    for (int round = 0; round < 50; ++round) {
      std::vector<std::string> arguments{"rules", def.name};
      for (int operands = draw(1, 5); operands > 0; --operands) {
        std::string shape;
        for (int rank = draw(0, 5); rank > 0; --rank)
          shape += (shape.empty() ? "" : "x") + std::to_string(draw(1, 4));
        arguments.push_back(shape.empty() ? "scalar" : shape);
      }
      SCOPED_TRACE(fmt::format("{}", fmt::join(arguments, " ")));
      try {
        run(arguments);
      } catch (const Error& error) {
        ASSERT_EQ(error.code(), Exit::bad_input) << error.what();
        ASSERT_NE(error.what(), std::string());
      }
    }
}

TEST(SbpRules, BadInput) {
  EXPECT_EQ(rules_message({"matmull", "4x6", "6x8"}), "matmull: no such op (did you mean matmul?)");
  EXPECT_EQ(rules_message({"matmul", "4x6", "6x8", "--devices", "0"}),
            R"(--devices: "0" is not a whole number of 1 to 1048576)");
  EXPECT_EQ(rules_message({"matmul", "4x6", "6x8", "--devices", "-2"}),
            R"(--devices: "-2" is not a whole number of 1 to 1048576)");
  EXPECT_EQ(rules_message({"matmul", "4x6", "6x8", "--devices", "99999999999999999999"}),
            R"(--devices: "99999999999999999999" is not a whole number of 1 to 1048576)");
  EXPECT_EQ(rules_message({"matmul", "4x6", "6x8", "--devices", "2.5"}),
            R"(--devices: "2.5" is not a whole number of 1 to 1048576)");
  EXPECT_EQ(rules_message({"matmul", "4x6", "6x8", "--devices", "2x"}),
            R"(--devices: "" is not a whole number of 1 to 1048576)");
  EXPECT_EQ(rules_message({"matmul", "4x6", "6x8", "--devices", "2x2x2x2x2"}),
            R"(--devices: "2x2x2x2x2" has 5 dimensions; a mesh has at most 4)");
  EXPECT_EQ(rules_message({"matmul", "4x-6", "6x8"}), R"(shape: "4x-6" has extent -6; expected 1 or more)");
  EXPECT_EQ(rules_message({"matmul", "4x0", "6x8"}), R"(shape: "4x0" has extent 0; expected 1 or more)");
  EXPECT_EQ(rules_message({"matmul", "4by6", "6x8"}),
            R"(shape: "4by6" is no shape; expected extents such as 4x6, or scalar)");
  EXPECT_EQ(rules_message({"matmul", "4x", "6x8"}),
            R"(shape: "4x" is no shape; expected extents such as 4x6, or scalar)");
  EXPECT_EQ(rules_message({"matmul", "99999999999x99999999999", "6x8"}),
            R"(shape: "99999999999x99999999999" has more than 2^48 elements)");
  EXPECT_EQ(
      rules_message({"matmul", "4x6:int", "6x8"}),
      R"(shape "4x6:int": "int": no such element type; known are float64, float32, float16, bfloat16, float8, )"
      "int64, int32, int8, boolean");
  EXPECT_EQ(
      rules_message({"matmul", "4x6", "6x8", "--dtype", "fp16"}),
      R"(--dtype: "fp16": no such element type; known are float64, float32, float16, bfloat16, float8, int64, )"
      "int32, int8, boolean");
  EXPECT_EQ(rules_message({"matmul", "4x6"}), "matmul: got 1 operand (float32[4, 6]), expected (a, b)");
  EXPECT_EQ(rules_message({"matmul", "4x6", "6x8", "--attr", "transpose_c=true"}),
            "matmul: no attribute transpose_c; known are transpose_a, transpose_b");
  EXPECT_EQ(rules_message({"matmul", "4x6", "6x8", "--attr", "transpose_b=2"}),
            "matmul: attribute transpose_b is 2, expected true or false");
  EXPECT_EQ(rules_message({"matmul", "4x6", "6x8", "--attr", "transpose_b"}),
            R"(--attr: "transpose_b" is no attribute; expected name=value, such as axis=1)");
  EXPECT_EQ(
      rules_message({"matmul", "4x6", "6x8", "--attr", "transpose_b=true", "--attr", "transpose_b=true"}),
      "--attr: transpose_b is given twice");
  EXPECT_EQ(rules_message({"matmul", "4x6", "6x8", "--attr", "transpose_b="}),
            R"(--attr transpose_b: "": expected an attribute: 4, 0.5, true, "text" or [1, 2])");
  EXPECT_EQ(rules_message({"matmul", "4x6", "6x8", "--divices", "2"}),
            "--divices: unknown flag (did you mean --devices?); `boxcar sbp rules --help` lists all");
  EXPECT_THAT(rules_message({"matmul", "4x6", "5x8"}), testing::HasSubstr("float32[5, 8]"));
}

TEST(SbpBox, Text) {
  EXPECT_EQ(run({"box", "--shape", "8x6", "--from", "P", "--to", "B", "--from-devices", "0-1"}),
            "float32[8, 6]: P(sum) on 0-1 -> B on 0-1\n"
            "  1. all_reduce (sum) -> B on 0-1, 384 bytes\n"
            "     among 0, 1\n"
            "moved: 384 bytes\n"
            "  device 0 receives 192 bytes\n"
            "  device 1 receives 192 bytes\n");
  EXPECT_EQ(run({"box", "--shape", "4", "--dtype", "float16", "--from", "S(0)", "--to", "S(0)",
                 "--from-devices", "0-1", "--to-devices", "1-2"}),
            "float16[4]: S(0) on 0-1 -> S(0) on 1-2\n"
            "  1. transfer -> S(0) on 1-2, 8 bytes\n"
            "     0 -> 1 [0:2], 4 bytes\n"
            "     1 -> 2 [2:4], 4 bytes\n"
            "moved: 8 bytes\n"
            "  device 0 receives 0 bytes\n"
            "  device 1 receives 4 bytes\n"
            "  device 2 receives 4 bytes\n");
  EXPECT_EQ(run({"box", "--shape", "4", "--from", "B", "--to", "B", "--from-devices", "0"}),
            "float32[4]: B on 0 -> B on 0\n"
            "  nothing to do\n"
            "moved: 0 bytes\n"
            "  device 0 receives 0 bytes\n");
}

TEST(SbpBox, Json) {
  const json route = json::parse(run({"box", "--shape", "8x6", "--dtype", "float32", "--from", "S(0)", "--to",
                                      "(B,S(1))", "--from-devices", "0-3", "--to-devices", "2-5", "--json"}));
  EXPECT_EQ(route["from"], "S(0) on 0-3");
  EXPECT_EQ(route["to"], "(B, S(1)) on 2-5:2x2");
  EXPECT_EQ(route["bytes_moved"], 336);
  EXPECT_EQ(route["bytes_received_per_device"], json::parse(R"({"0":0,"1":0,"2":72,"3":72,"4":96,"5":96})"));
  ASSERT_EQ(route["steps"].size(), 1u);
  EXPECT_EQ(route["steps"][0]["collective"], "transfer");
  EXPECT_EQ(route["steps"][0]["slices"].size(), 16u);  // two of them stay in place
  EXPECT_EQ(route["steps"][0]["slices"][0],
            json::parse(R"({"from":0,"to":2,"block":[[0,2],[0,3]],"how":"copy","bytes":24})"));
}

TEST(SbpBox, MeshIsTheOthersOrTheSquarest) {
  const auto to = [](std::vector<std::string> more) {
    std::vector<std::string> arguments{"box",       "--shape",        "8x8", "--from", "(S(0), B)", "--to",
                                       "(B, S(1))", "--from-devices", "0-7", "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return json::parse(run(arguments))["to"].get<std::string>();
  };
  EXPECT_EQ(to({}), "(B, S(1)) on 0-7:2x4");
  EXPECT_EQ(to({"--from-mesh", "4x2"}), "(B, S(1)) on 0-7:4x2");
  EXPECT_EQ(to({"--from-mesh", "4x2", "--to-mesh", "1x8"}), "(B, S(1)) on 0-7:1x8");
  EXPECT_EQ(to({"--to-devices", "0-11"}), "(B, S(1)) on 0-11:3x4");
  EXPECT_EQ(to({"--to-devices", "0-3,8-11:1x8"}), "(B, S(1)) on 0-3,8-11:1x8");
}

TEST(SbpBox, BadInput) {
  EXPECT_EQ(box_message({"--from", "S(x)"}), R"~(--from: layout "S(x)": expected an axis at "x)")~");
  EXPECT_EQ(box_message({"--to", "S(2)"}),
            R"~(--to: layout "S(2)": splits axis 2, but shape [8, 6] has 2 (from 0))~");
  EXPECT_EQ(box_message({"--to", "Q"}),
            R"~(--to: layout "Q": expected S(axis), B or P(sum, max or min) at "Q")~");
  EXPECT_EQ(box_message({"--to", "(B, S(1))", "--to-mesh", "4"}),
            R"~(--to: layout "(B, S(1))": has 2 entries, but mesh 4 has 1)~");
  EXPECT_EQ(box_message({"--to", "(B, S(1))", "--to-mesh", "3x2"}),
            R"~(--to-mesh: devices "0-3:3x2": mesh 3x2 has 6 places, but there are 4 devices)~");
  EXPECT_EQ(box_message({"--from-mesh", "2x"}), R"~(--from-mesh: mesh "2x": expected an extent at the end)~");
  EXPECT_EQ(box_message({"--from-devices", "0-"}),
            R"~(--from-devices: devices "0-": expected a device at the end)~");
  EXPECT_EQ(box_message({"--from-devices", "-3"}),
            R"~(--from-devices: devices "-3": expected a device at "-3")~");
  EXPECT_EQ(box_message({"--from-devices", "0,0"}),
            R"~(--from-devices: devices "0,0": device 0 is there twice)~");
  EXPECT_EQ(box_message({"--from-devices", "0-1024"}),
            "--from-devices: 1025 devices; a route is worked out for at most 1024");
  EXPECT_EQ(box_message({"--from-devices", "0-99999999"}),
            R"~(--from-devices: devices "0-99999999": expected a device of at most 1048575 at "99999999")~");
  EXPECT_EQ(box_message({"--shape", "8x"}),
            R"(--shape: "8x" is no shape; expected extents such as 4x6, or scalar)");
  EXPECT_EQ(
      box_message({"--dtype", "f32"}),
      R"(--dtype: "f32": no such element type; known are float64, float32, float16, bfloat16, float8, int64, )"
      "int32, int8, boolean");
  EXPECT_EQ(box_message({"--dtype", "boolean", "--from", "P(sum)"}),
            R"(--from: booleans have no sums (use P(max), which is "or", or P(min), which is "and"))");
  EXPECT_EQ(box_message({"--dtype", "boolean", "--to", "P(sum)"}),
            R"(--to: booleans have no sums (use P(max), which is "or", or P(min), which is "and"))");
  EXPECT_EQ(box_message({"extra"}), "extra: one argument too many");
  EXPECT_EQ(box_message({"--form", "B"}),
            "--form: unknown flag (did you mean --from?); `boxcar sbp box --help` lists all");
  EXPECT_EQ(message({"box", "--shape", "8x6"}), "--from is required");
}

TEST(Sbp, ListsSignatures) {
  const std::string all = run({"ops", "--signatures"});
  EXPECT_THAT(all, testing::HasSubstr("\nlayer_norm(x, gamma, beta) {eps=1e-05} -> y, mean, rstd\n"));
  EXPECT_THAT(all, testing::HasSubstr("\nadd(a, b) -> y\n"));
  EXPECT_THAT(all, testing::HasSubstr("\nsquare_sum(x) -> norm2   (no gradient)\n"));
}

TEST(Sbp, NamesItsCommands) {
  EXPECT_EQ(message({}), "sbp: which one? ops, rules or box");
  EXPECT_EQ(message({"bx", "ops"}),
            "sbp bx: no such command (did you mean box?); there are ops, rules and box");
  EXPECT_EQ(message({"bx"}), "sbp bx: no such command (did you mean box?); there are ops, rules and box");
}

}  // namespace
}  // namespace boxcar::cli
