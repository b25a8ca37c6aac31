// `boxcar train` as a user runs it: losses that fall, and its output.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "train.h"

namespace boxcar::tests {
namespace {

// Some tokens find their expert full here. The biases of experts are weighed as their results are.
TEST_F(Train, ExpertsThatAreWeighedInsideAddUpToTheSame) {
  for (const char* model : {"--model=gpt", "--model=llama"}) {
    const auto losses = [&](const char* inside) {
      return train({model, "--experts=4", "--top-k=3", "--bias=true", "--global-batch=4", "--precision=fp64",
                    "--dropout=0", "--learning-rate=0.05", inside});
    };
    const std::map<int, double> after = losses("--weigh-inside=false"),
                                inside = losses("--weigh-inside=true");
    ASSERT_EQ(inside.size(), 6u);
    for (const auto& [step, loss] : after) EXPECT_NEAR(inside.at(step), loss, 1e-10) << model << " " << step;
  }
}

TEST_F(Train, EverySplitHasTheSingleDevicesLosses) {
  const Words job{"--global-batch=8", "--precision=fp64", "--dropout=0.1"};
  const auto with = [&](Words more) {
    more.insert(more.end(), job.begin(), job.end());
    return train(more);
  };
  const auto alone = with({});
  ASSERT_EQ(alone.size(), 6u);
  EXPECT_LT(alone.at(6), alone.at(1));
  for (Words plan : {Words{"--dp=4"}, Words{"--tp=2", "--pp=2"}, Words{"--dp=2", "--tp=2", "--zero=3"},
                     Words{"--dp=2", "--cp=2", "--zero=1", "--recompute=full"}}) {
    const auto split = with(plan);
    plan.push_back("--chaos=5");
    EXPECT_EQ(with(plan), split) << plan[0];
    for (const auto& [step, loss] : alone)
      EXPECT_NEAR(split.at(step), loss, 1e-9 * loss) << plan[0] << " step " << step;
  }
}

// BERT by masked tokens and pairs, T5 by continuing text.
TEST_F(Train, EncodersHaveTheSingleDevicesLosses) {
  for (const Words& model :
       {Words{"--model=bert", "--masked=3"}, Words{"--model=t5", "--decoder-seq=6", "--layers=4"}}) {
    SCOPED_TRACE(model[0]);
    const auto with = [&](Words more) {
      more.insert(more.begin(), model.begin(), model.end());
      more.insert(more.end(), {"--global-batch=8", "--precision=fp64", "--dropout=0.1"});
      return train(more);
    };
    const auto alone = with({});
    ASSERT_EQ(alone.size(), 6u);
    for (const Words& plan : {Words{"--dp=4"}, Words{"--tp=2", "--pp=2", "--chaos=3"},
                              Words{"--dp=2", "--zero=3", "--recompute=full"}}) {
      const auto split = with(plan);
      for (const auto& [step, loss] : alone) EXPECT_NEAR(split.at(step), loss, 1e-9 * loss) << plan[0];
    }
  }
}

// Letters that follow from their places: little is left but whether pairs belong together, ln 2.
TEST_F(Train, PredictsMaskedTokensAndContinuations) {
  std::ofstream text(path("letters.txt"));
  for (int i = 0; i < 500; ++i) text << "abcdefgh";
  text.close();
  const Words sizes{
      "--data=" + path("letters.txt"), "--hidden=32", "--dropout=0", "--micro-batch=32", "--global-batch=32",
      "--learning-rate=0.003",         "--gpus=1"};
  const auto last_of = [&](Words words) {
    words.insert(words.end(), sizes.begin(), sizes.end());
    return train(words).rbegin()->second;
  };
  EXPECT_LT(last_of({"--model=bert", "--masked=4", "--seq=35", "--steps=250"}),
            1.5);  // ln 8 + ln 2 without context
  EXPECT_LT(last_of({"--model=t5", "--decoder-seq=8", "--seq=24", "--steps=120"}), 0.2);
}

// Dark and bright images.
TEST_F(Train, TellsImagesApart) {
  std::mt19937 random(3);
  std::ofstream file(path("images.bin"), std::ios::binary);
  for (int image = 0; image < 24; ++image) {
    file.put(static_cast<char>(image % 2)).put(0);
    for (int byte = 0; byte < 3 * 32 * 32; ++byte)
      file.put(static_cast<char>(random() % 128 + (image % 2 == 0 ? 0 : 128)));
  }
  file.close();
  const Words job{"train",
                  "--model=resnet",
                  "--layers=16",
                  "--hidden=4",
                  "--image=32",
                  "--vocab=2",
                  "--steps=16",
                  "--micro-batch=12",
                  "--global-batch=24",
                  "--optimizer=momentum",
                  "--learning-rate=0.05",
                  "--clip-norm=0",
                  "--data=" + path("images.bin")};
  const auto run_with = [&](Words more) {
    more.insert(more.begin(), job.begin(), job.end());
    const Output output = run_program(more);
    EXPECT_EQ(output.exit_code, 0) << output.err;
    return output.out;
  };
  const auto alone = losses(run_with({"--json", "--precision=fp64"}));
  ASSERT_EQ(alone.size(), 16u);
  EXPECT_LT(alone.at(16), 0.5 * alone.at(1));
  // Batch norm uses the images of one device.
  const auto two = losses(run_with({"--json", "--precision=fp64", "--dp=2"}));
  EXPECT_EQ(losses(run_with({"--json", "--precision=fp64", "--dp=2", "--chaos=2"})), two);
  EXPECT_NEAR(two.at(4), alone.at(4), 1e-9);
  EXPECT_THAT(run_with({"--data=random"}), AllOf(HasSubstr(": 24 images a step;"), HasSubstr(" images/s")));
}

// The first step of momentum from zero is that of plain gradient descent; the second is not.
TEST_F(Train, MomentsBeginAtZero) {
  const Words alike{"--precision=fp64", "--learning-rate=0.1", "--dropout=0", "--global-batch=2"};
  Words plain = alike, with_momentum = alike;
  plain.push_back("--optimizer=sgd");
  with_momentum.push_back("--optimizer=momentum");
  const std::map<int, double> one = train(plain), other = train(with_momentum);
  EXPECT_EQ(one.at(1), other.at(1));
  EXPECT_EQ(one.at(2), other.at(2));
  EXPECT_NE(one.at(3), other.at(3));
}

TEST_F(Train, SaysHowItGoesOnInJson) {
  const Output output = run_program(arguments({"--validate-every=3", "--validation-fraction=0.2"}));
  ASSERT_EQ(output.exit_code, 0) << output.err;
  std::string events;
  json last;
  std::istringstream lines(output.out);
  for (std::string line; std::getline(lines, line);) {
    last = json::parse(line);
    events += last.at("event").get<std::string>() + " ";
    if (last.at("event") != "step") continue;
    for (const char* key : {"step", "loss", "learning_rate", "step_time_s", "samples", "tokens_per_s"})
      EXPECT_TRUE(last.contains(key)) << key;
  }
  EXPECT_EQ(events, "start step step step validation step step step validation end ");
  EXPECT_EQ(last.at("step"), 6);
}

TEST_F(Train, ValidatesAlikeUnderEveryPlan) {
  const auto validation = [&](Words more) {
    more.insert(more.end(), {"--validate-every=2", "--validation-fraction=0.2", "--precision=fp64",
                             "--global-batch=8", "--dropout=0.1", "--validation-batches=3"});
    const Output output = run_program(arguments(more));
    EXPECT_EQ(output.exit_code, 0) << output.err;
    return losses(output.out, "validation");
  };
  const auto alone = validation({});
  ASSERT_EQ(alone.size(), 3u);
  EXPECT_LT(alone.at(6), alone.at(2));
  for (const auto& [step, loss] : validation({"--dp=2", "--tp=2", "--pp=2", "--zero=1"}))
    EXPECT_NEAR(loss, alone.at(step), 1e-9 * loss) << step;
  // In float32; sums are in another order when fewer sequences run at once.
  for (const auto& [step, loss] : validation({"--dp=2", "--micro-batch=4"}))
    EXPECT_NEAR(loss, alone.at(step), 1e-6 * loss) << step;
  for (const auto& [step, loss] : validation({"--dp=8", "--micro-batch=1"}))
    EXPECT_NEAR(loss, alone.at(step), 1e-6 * loss) << step;
}

TEST_F(Train, ReadsTokensAsItReadsText) {
  std::ofstream tokens(path("text.bin"), std::ios::binary);
  for (const char c : bytes_of(data())) tokens << c << '\0';
  tokens.close();
  const auto text = train({});
  EXPECT_EQ(text.size(), 6u);
  EXPECT_EQ(train({"--data=" + path("text.bin")}), text);
}

// Weights written by a run without learning equal its initial ones.
TEST_F(Train, BeginsWithGivenWeights) {
  for (const std::string family : {"gpt", "llama"}) {
    const std::string folder = path(family);
    train({"--model=" + family, "--learning-rate=0", "--steps=1", "--checkpoint-dir=" + folder});
    const auto drawn = train({"--model=" + family});
    const Output output =
        run_program({"train", "--init-from=" + folder + "/step-000001/model.safetensors", "--data=" + data(),
                     "--seq=16", "--steps=6", "--micro-batch=2", "--json"});
    EXPECT_EQ(output.exit_code, 0) << output.err;
    EXPECT_EQ(losses(output.out), drawn) << family;
  }
  const std::string weights = path("gpt") + "/step-000001/model.safetensors";
  const Output other =
      run_program({"train", "--init-from=" + weights, "--data=" + data(), "--seq=16", "--vocab=300"});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_EQ(other.err,
            "boxcar: " + weights +
                ": weights: 'transformer.wte.weight' is float32[256, 16], expected float32[300, 16]\n");
}

TEST_F(Train, TellsItsOwnDefaults) {
  const std::string help = run_program({"train", "--help"}).out;
  EXPECT_THAT(
      help,
      HasSubstr(
          "type of the products; fp64: of everything; fp8: of those in layers, simulated alone [fp32]\n"));
  EXPECT_THAT(help, HasSubstr("learning rate [0.001]\n"));
  EXPECT_THAT(help, HasSubstr("or a YAML file [local]\n"));
}

TEST_F(Train, ShowsABarOnATerminal) {
  int terminal = -1, end = -1;
  ASSERT_EQ(openpty(&terminal, &end, nullptr, nullptr, nullptr), 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(end, STDERR_FILENO);
    close(terminal);
    Words words = arguments({});
    std::erase(words, "--json");
    run(words);
  }
  close(end);
  std::string text;
  char part[256];
  for (ssize_t bytes = 0; (bytes = read(terminal, part, sizeof part)) > 0;)
    text.append(part, static_cast<size_t>(bytes));
  close(terminal);
  waitpid(child, nullptr, 0);
  const std::string bar = "\r.\\[K\\[####\\.{20}\\] 1/6  loss 5\\.[0-9]{4}  [0-9]+ tokens/s  [0-9]+ s left";
  EXPECT_THAT(text, ContainsRegex(bar));
  EXPECT_THAT(text, ContainsRegex("\\[#{24}\\] 6/6  loss"));
}

}  // namespace
}  // namespace boxcar::tests
