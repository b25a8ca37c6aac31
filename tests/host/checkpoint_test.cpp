#include "backends/host/checkpoint.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>

#include "backends/host/model_keys.h"
#include "backends/host/vocabulary.h"
#include "models.h"
#include "support/error_of.h"
#include "temporary.h"

namespace boxcar::tests {
namespace {

using backends::host::Architecture;
using backends::host::Checkpoint;
using backends::host::HeldFolder;
using backends::host::read_checkpoint;
using backends::host::StoredTensor;
using backends::host::write_checkpoint;
using ir::models::Transformer;
using testing::UnorderedElementsAre;

Checkpoint random_checkpoint(std::mt19937_64& random, const Transformer& model, int64_t step) {
  Checkpoint checkpoint{model, {step, step * 16, 7, "a.txt, b.bin"}, {}};
  for (const auto& [name, type] : backends::host::parameter_types(model))
    for (const char* part : {"", ".m", ".v"}) checkpoint.tensors[name + part] = random_stored(random, type);
  return checkpoint;
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename());
  return names;
}

Transformer small_gpt() {
  std::mt19937_64 random(5);
  return random_model(random, Architecture::gpt2);
}

TEST(Checkpoint, ReadsBackWhatItWrote) {
  std::mt19937_64 random(41);
  for (int round = 0; round < 15; ++round) {
    const TemporaryFolder folder;
    const Transformer model = random_model(random, static_cast<Architecture>(round % 3));
    const Checkpoint written = random_checkpoint(random, model, round * 1000);
    write_checkpoint(folder / "out", written);
    const auto read = read_checkpoint(folder / "out", model);
    ASSERT_TRUE(read);
    EXPECT_EQ(read->state, written.state);
    EXPECT_EQ(read->tensors, written.tensors);
    EXPECT_EQ(backends::host::different_key(*read->model.transformer(), model), "");
  }
}

TEST(Checkpoint, HasTheFilesThatItsHeaderNames) {
  std::mt19937_64 random(42);
  const TemporaryFolder folder;
  write_checkpoint(folder.path(), random_checkpoint(random, small_gpt(), 20));
  EXPECT_THAT(names_in(folder.path()), UnorderedElementsAre("step-000020", "latest"));
  EXPECT_THAT(names_in(folder / "step-000020"), UnorderedElementsAre("model.safetensors", "config.json",
                                                                     "optimizer.safetensors", "state.json"));
  EXPECT_EQ(contents(folder / "latest"), "step-000020\n");
}

TEST(Checkpoint, FitsAnotherPaddingOfTheVocabulary) {
  std::mt19937_64 random(43);
  const TemporaryFolder folder;
  Transformer model = small_gpt(), wide = model;
  wide.pad_vocab_to = 32;
  const Checkpoint written = random_checkpoint(random, model, 1);
  write_checkpoint(folder.path(), written);
  const auto padded = read_checkpoint(folder.path(), wide);
  for (const char* part : {"embedding.word", "embedding.word.m", "embedding.word.v"}) {
    const StoredTensor &narrow = written.tensors.at(part), &got = padded->tensors.at(part);
    ASSERT_EQ(got.type.shape, (ir::Shape{32, model.hidden}));
    EXPECT_TRUE(std::equal(narrow.bytes.begin(), narrow.bytes.end(), got.bytes.begin()));
    EXPECT_TRUE(std::all_of(got.bytes.begin() + static_cast<std::ptrdiff_t>(narrow.bytes.size()),
                            got.bytes.end(), [](std::byte b) { return b == std::byte{0}; }));
  }
  write_checkpoint(folder.path(), {wide, {2, 0, 0, ""}, padded->tensors});
  EXPECT_EQ(read_checkpoint(folder.path(), model)->tensors, written.tensors);
}

// A model without a form of Hugging Face's: its files had the padding once.
TEST(Checkpoint, ReadsFilesWithPaddingAndLeavesItOut) {
  std::mt19937_64 random(45);
  const TemporaryFolder folder;
  Transformer model = random_model(random, Architecture::own);
  model.vocab = 10;
  Transformer wide = model;
  wide.pad_vocab_to = 32;
  const Checkpoint written = random_checkpoint(random, wide, 1);
  write_checkpoint(folder.path(), written);
  const StoredTensor& padded = written.tensors.at("embedding.word");
  const std::string weights = folder / "step-000001/model.safetensors";
  backends::host::StoredFile file = backends::host::read_safetensors(weights);
  EXPECT_EQ(file.tensors.at("embedding.word").type.shape, (ir::Shape{model.vocab, model.hidden}));
  EXPECT_EQ(backends::host::read_safetensors(folder / "step-000001/optimizer.safetensors")
                .tensors.at("embedding.word.m")
                .type.shape,
            (ir::Shape{model.vocab, model.hidden}));
  const backends::host::GlobalTensors now = read_checkpoint(folder.path(), wide)->tensors;
  file.tensors["embedding.word"] = padded;
  backends::host::write_safetensors(weights, file);
  EXPECT_EQ(read_checkpoint(folder.path(), wide)->tensors, now);
  EXPECT_NE(now.at("embedding.word"), padded);
  file.tensors["embedding.word"] = backends::host::fitted(padded, {model.vocab - 1, model.hidden});
  backends::host::write_safetensors(weights, file);
  EXPECT_THAT(support::error_of([&] { read_checkpoint(folder.path(), wide); }),
              testing::HasSubstr("'embedding.word' is "));
  file.tensors["embedding.word"] = padded;
  backends::host::write_safetensors(weights, file);
  EXPECT_EQ(read_checkpoint(folder.path(), model)->tensors.at("embedding.word").type.shape,
            (ir::Shape{model.vocab, model.hidden}));
}

TEST(Checkpoint, KeepsTheLastFew) {
  std::mt19937_64 random(44);
  const TemporaryFolder folder;
  const auto write = [&](int64_t step, int keep) {
    write_checkpoint(folder.path(), random_checkpoint(random, small_gpt(), step), keep);
  };
  for (int64_t step : {5, 10, 15}) write(step, 0);
  EXPECT_THAT(names_in(folder.path()),
              UnorderedElementsAre("step-000005", "step-000010", "step-000015", "latest"));
  write(20, 3);
  EXPECT_THAT(names_in(folder.path()),
              UnorderedElementsAre("step-000010", "step-000015", "step-000020", "latest"));
  write(999999, 2);
  write(1000000, 2);
  EXPECT_THAT(names_in(folder.path()), UnorderedElementsAre("step-999999", "step-1000000", "latest"));
  write(1000001, 1);
  EXPECT_THAT(names_in(folder.path()), UnorderedElementsAre("step-1000001", "latest"));
}

// Steps of an earlier run in the same folder: the last one written counts, not the highest number.
TEST(Checkpoint, ReadsTheLastOneWritten) {
  std::mt19937_64 random(45);
  const TemporaryFolder folder;
  write_checkpoint(folder.path(), random_checkpoint(random, small_gpt(), 30));
  const Checkpoint written = random_checkpoint(random, small_gpt(), 10);
  write_checkpoint(folder.path(), written);
  EXPECT_EQ(read_checkpoint(folder.path(), small_gpt())->tensors, written.tensors);
}

TEST(Checkpoint, ReplacesTheSameStep) {
  std::mt19937_64 random(46);
  const TemporaryFolder folder;
  write_checkpoint(folder.path(), random_checkpoint(random, small_gpt(), 30));
  const Checkpoint written = random_checkpoint(random, small_gpt(), 30);
  write_checkpoint(folder.path(), written);
  EXPECT_EQ(read_checkpoint(folder.path(), small_gpt())->tensors, written.tensors);
  EXPECT_THAT(names_in(folder.path()), UnorderedElementsAre("step-000030", "latest"));
}

TEST(Checkpoint, RemovesWhatAKilledWriterLeft) {
  std::mt19937_64 random(47);
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "step-000007.tmp");
  folder.file("step-000007.tmp/model.safetensors.tmp", "torn");
  folder.file("step-notes.txt", "mine");
  write_checkpoint(folder.path(), random_checkpoint(random, small_gpt(), 10));
  EXPECT_THAT(names_in(folder.path()), UnorderedElementsAre("step-000010", "step-notes.txt", "latest"));
}

TEST(Checkpoint, IsNoneWhereThereIsNone) {
  const TemporaryFolder folder;
  EXPECT_FALSE(read_checkpoint(folder.path(), small_gpt()));
  EXPECT_FALSE(read_checkpoint(folder / "none", small_gpt()));
}

TEST(HeldFolder, IsHeldByOneAtATime) {
  const TemporaryFolder folder;
  char host[128] = {};
  gethostname(host, sizeof host - 1);
  {
    const HeldFolder held(folder.path());
    EXPECT_EQ(message_of(folder, [&] { const HeldFolder another(folder.path()); }),
              "2: " + folder.path() + ": process " + std::to_string(getpid()) + " on " + host +
                  " writes its checkpoints there (wait until it ends, or use another folder)");
  }
  const HeldFolder next(folder.path());
}

TEST(HeldFolder, SaysWhyNothingCanBeWritten) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "out/lock");
  EXPECT_EQ(message_of(folder, [&] { const HeldFolder held(folder / "out"); }),
            "3: out: cannot be written: Is a directory");
  folder.file("file", "");
  EXPECT_EQ(message_of(folder, [&] { const HeldFolder held(folder / "file/out"); }),
            "3: file: cannot be created: Not a directory");
}

TEST(Checkpoint, SaysWhyItCannotBeWritten) {
  std::mt19937_64 random(48);
  const TemporaryFolder folder;
  const Checkpoint checkpoint = random_checkpoint(random, small_gpt(), 10);
  const auto write = [&](const std::string& path) {
    return message_of(folder, [&] { write_checkpoint(path, checkpoint); });
  };
  folder.file("file", "");
  EXPECT_EQ(write(folder / "file"), "3: file: cannot be created: Not a directory");
  EXPECT_EQ(write(folder / "file/out"), "3: file: cannot be created: Not a directory");
  EXPECT_EQ(write("/proc/none"), "3: /proc/none: cannot be created: No such file or directory");
  Checkpoint partial = checkpoint;
  partial.tensors.erase("ln_f.weight");
  EXPECT_EQ(message_of(folder, [&] { write_checkpoint(folder / "out", partial); }),
            "2: weights: have no 'ln_f.weight'");
  EXPECT_FALSE(read_checkpoint(folder / "out", small_gpt()));
}

class DamagedCheckpoint : public testing::Test {
 protected:
  void SetUp() override {
    std::mt19937_64 random(49);
    model_ = random_model(random, Architecture::gpt2);
    write_checkpoint(folder_.path(), random_checkpoint(random, model_, 20));
  }
  std::string read() const { return read_as(model_); }
  std::string read_as(const Transformer& model) const {
    return message_of(folder_, [&] { read_checkpoint(folder_.path(), model); });
  }
  void replace(const std::string& name, const std::string& from, const std::string& to) const {
    std::string text = contents(folder_ / name);
    text.replace(text.find(from), from.size(), to);
    folder_.file(name, text);
  }

  TemporaryFolder folder_;
  Transformer model_;
};

TEST_F(DamagedCheckpoint, OfAnotherModel) {
  const auto other = [&](auto field, auto value) {
    Transformer model = model_;
    model.*field = value;
    return read_as(model);
  };
  const std::string start = "2: step-000020: is of another model: ",
                    end = " (use the model's own settings, or another folder)";
  EXPECT_EQ(other(&Transformer::layers, model_.layers + 1),
            start + fmt::format("layers is {}, expected {}", model_.layers, model_.layers + 1) + end);
  EXPECT_EQ(other(&Transformer::vocab, model_.vocab + 1),
            start + fmt::format("vocab is {}, expected {}", model_.vocab, model_.vocab + 1) + end);
  EXPECT_EQ(other(&Transformer::ffn, model_.ffn + 1),
            start + fmt::format("ffn is {}, expected {}", model_.ffn, model_.ffn + 1) + end);
  EXPECT_EQ(other(&Transformer::tied, !model_.tied),
            start + fmt::format("tied is {}, expected {}", model_.tied, !model_.tied) + end);
  EXPECT_EQ(other(&Transformer::position, "rotary"),
            start + R"(position is "learned", expected "rotary")" + end);
  EXPECT_EQ(other(&Transformer::family, "bert"), start + R"(family is "gpt", expected "bert")" + end);
  EXPECT_EQ(other(&Transformer::dropout, 0.5), "");
}

// Files written before the keys existed are of models with the numbers that all had.
TEST(Checkpoint, KnowsTheNumbersOfNormsAndPositions) {
  std::mt19937_64 random(51);
  const TemporaryFolder folder;
  Transformer usual = random_model(random, Architecture::llama);
  usual.norm_epsilon = 1e-5, usual.rotary_base = 10'000;
  Transformer llama3 = usual, llama1 = usual;
  llama3.rotary_base = 500'000, llama1.norm_epsilon = 1e-6;
  write_checkpoint(folder.path(), random_checkpoint(random, usual, 20));
  const auto expect_read = [&] {
    const auto read = [&](const Transformer& model) {
      return message_of(folder, [&] { read_checkpoint(folder.path(), model); });
    };
    EXPECT_EQ(read(usual), "");
    EXPECT_THAT(read(llama3), testing::HasSubstr("rotary_base is 10000.0, expected 500000.0"));
    EXPECT_THAT(read(llama1), testing::HasSubstr("norm_epsilon is 1e-05, expected 1e-06"));
  };
  expect_read();
  std::string state = contents(folder / "step-000020/state.json");
  for (const std::string key : {",\n    \"norm_epsilon\": 1e-05", ",\n    \"rotary_base\": 10000.0"})
    state.erase(state.find(key), key.size());
  folder.file("step-000020/state.json", state);
  expect_read();
}

// A file written before the key existed has experts in every layer.
TEST(Checkpoint, KnowsWhichLayersHaveExperts) {
  std::mt19937_64 random(50);
  const TemporaryFolder folder;
  Transformer every = random_model(random, Architecture::own);
  every.layers = 2;
  every.expert_every = 1;
  Transformer other = every;
  other.expert_every = 2;
  write_checkpoint(folder.path(), random_checkpoint(random, every, 20));
  const auto read = [&](const Transformer& model) {
    return message_of(folder, [&] { read_checkpoint(folder.path(), model); });
  };
  const std::string refusal =
      "2: step-000020: is of another model: expert_every is 1, expected 2 (use the model's own settings, or "
      "another folder)";
  EXPECT_EQ(read(other), refusal);
  std::string state = contents(folder / "step-000020/state.json");
  const std::string key = ",\n    \"expert_every\": 1";
  state.erase(state.find(key), key.size());
  folder.file("step-000020/state.json", state);
  EXPECT_EQ(read(every), "");
  EXPECT_EQ(read(other), refusal);
}

TEST_F(DamagedCheckpoint, Latest) {
  folder_.file("latest", "step-20\n");
  EXPECT_EQ(read(), "2: latest: names 'step-20', expected a checkpoint such as step-000020");
  folder_.file("latest", "../elsewhere");
  EXPECT_EQ(read(), "2: latest: names '../elsewhere', expected a checkpoint such as step-000020");
  folder_.file("latest", "step-000021\n");
  EXPECT_EQ(read(), "2: step-000021/state.json: cannot be read: No such file or directory");
}

// Reads nothing outside a folder that somebody else made.
TEST_F(DamagedCheckpoint, WithLinksOutOfIt) {
  const TemporaryFolder outside;
  const auto recursive = std::filesystem::copy_options::recursive;
  std::filesystem::copy(folder_.path(), outside / "run", recursive);
  const auto read_with_link = [&](const std::string& name) {
    std::filesystem::rename(folder_ / name, folder_ / "kept");
    std::filesystem::create_symlink(outside / ("run/" + name), folder_ / name);
    const std::string message = read();
    std::filesystem::remove(folder_ / name);
    std::filesystem::rename(folder_ / "kept", folder_ / name);
    return message;
  };
  const auto refusal = [&](const std::string& name) {
    return "2: " + name + ": is a link to " + outside / ("run/" + name) + ", which is not in " +
           folder_.path() + " (put a copy in its place)";
  };
  for (const char* file : {"step-000020/optimizer.safetensors", "step-000020/model.safetensors",
                           "step-000020/state.json", "latest"})
    EXPECT_EQ(read_with_link(file), refusal(file));
  EXPECT_EQ(read_with_link("step-000020"), refusal("step-000020/state.json"));
  EXPECT_EQ(read(), "");
  std::filesystem::rename(folder_ / "step-000020", folder_ / "twenty");
  std::filesystem::create_symlink("twenty", folder_ / "step-000020");
  EXPECT_EQ(read(), "");
}

// Writes nothing outside it.
TEST_F(DamagedCheckpoint, WithLinksThatWouldBeWrittenThrough) {
  std::mt19937_64 random(51);
  const TemporaryFolder outside;
  const std::string theirs = outside.file("theirs", "precious");
  std::filesystem::create_directory(outside / "folder");
  for (const char* name : {"latest.tmp", "step-000030.tmp"})
    std::filesystem::create_symlink(theirs, folder_ / name);
  std::filesystem::create_symlink(outside / "folder", folder_ / "step-000040");
  std::filesystem::create_symlink(outside / "none", folder_ / "step-000030");
  for (const int64_t step : {30, 40})
    write_checkpoint(folder_.path(), random_checkpoint(random, model_, step), 1);
  EXPECT_EQ(read(), "");
  EXPECT_EQ(contents(theirs), "precious");
  EXPECT_THAT(names_in(outside.path()), UnorderedElementsAre("theirs", "folder"));
  EXPECT_THAT(names_in(outside / "folder"), testing::IsEmpty());
  EXPECT_THAT(names_in(folder_.path()), UnorderedElementsAre("step-000040", "latest"));
  std::filesystem::create_symlink(outside / "none", folder_ / "lock");
  EXPECT_EQ(message_of(folder_, [&] { const HeldFolder held(folder_.path()); }),
            "3: " + folder_.path() + ": cannot be written: Too many levels of symbolic links");
}

TEST_F(DamagedCheckpoint, State) {
  replace("step-000020/state.json", "\"schema_version\": 1", "\"schema_version\": 2");
  EXPECT_EQ(read(), "2: step-000020/state.json: schema_version is 2, expected 1");
  replace("step-000020/state.json", "\"schema_version\": 2", "\"schema_version\": 1");
  replace("step-000020/state.json", "\"step\": 20", "\"step\": -1");
  EXPECT_EQ(read(), "2: step-000020/state.json: step is -1, expected a whole number of at least 0");
  replace("step-000020/state.json", "\"seed\": 7", "\"seed\": 18446744073709551615");
  replace("step-000020/state.json", "\"step\": -1", "\"step\": 20");
  EXPECT_EQ(read(),
            "2: step-000020/state.json: seed is 18446744073709551615, expected a whole number of at most "
            "9223372036854775807");
  replace("step-000020/state.json", "\"seed\": 18446744073709551615", "\"seed\": 7");
  replace("step-000020/state.json", "\"step\": 20", "\"steps\": 20");
  EXPECT_EQ(read(), "2: step-000020/state.json: has no step");
  replace("step-000020/state.json", "\"model\": {", "\"model\": [");
  EXPECT_THAT(read(), testing::MatchesRegex("2: step-000020/state.json:[0-9]+:[0-9]+: is not JSON"));
}

TEST_F(DamagedCheckpoint, Tensors) {
  const std::string whole = contents(folder_ / "step-000020/optimizer.safetensors");
  folder_.file("step-000020/optimizer.safetensors", whole.substr(0, 4));
  EXPECT_EQ(read(),
            "2: step-000020/optimizer.safetensors: is not a safetensors file: it has 4 bytes, expected at "
            "least the "
            "8 of the header's length");
  std::filesystem::remove(folder_ / "step-000020/optimizer.safetensors");
  EXPECT_EQ(read(), "2: step-000020/optimizer.safetensors: cannot be read: No such file or directory");
  folder_.file("step-000020/optimizer.safetensors", whole);
  backends::host::StoredFile file =
      backends::host::read_safetensors(folder_ / "step-000020/model.safetensors");
  file.tensors.erase("transformer.ln_f.bias");
  backends::host::write_safetensors(folder_ / "step-000020/model.safetensors", file);
  EXPECT_EQ(read(), "2: step-000020/model.safetensors: weights: have no 'transformer.ln_f.bias'");
}

}  // namespace
}  // namespace boxcar::tests
