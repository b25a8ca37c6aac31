#include "backends/host/records.h"

#include <gmock/gmock.h>

#include <cstring>
#include <set>

#include "temporary.h"

namespace boxcar::tests {
namespace {

using backends::host::RecordData;
using backends::host::RecordSamples;
using backends::host::StoredFile;
using backends::host::StoredTensor;
using ir::DType;
using ir::models::GraphInput;

const std::vector<GraphInput> inputs{{"x", {{2, 3}, DType::float32}, 0}, {"label", {{}, DType::int64}, 5}};

template <class Number>
StoredTensor stored(ir::TensorType type, const std::vector<Number>& numbers) {
  StoredTensor tensor{std::move(type), std::vector<std::byte>(numbers.size() * sizeof(Number))};
  std::memcpy(tensor.bytes.data(), numbers.data(), tensor.bytes.size());
  return tensor;
}

// Sample i has numbers 10 i to 10 i + 5 and label i.
StoredFile three_samples() {
  std::vector<float> x;
  for (int sample = 0; sample < 3; ++sample)
    for (int i = 0; i < 6; ++i) x.push_back(static_cast<float>(10 * sample + i));
  StoredFile file;
  file.tensors["x"] = stored<float>({{3, 2, 3}, DType::float32}, x);
  file.tensors["label"] = stored<int32_t>({{3}, DType::int32}, {0, 1, 2});
  return file;
}

TEST(RecordData, ReadsPartsInTrainingOrder) {
  const TemporaryFolder folder;
  write_safetensors(folder / "a.safetensors", three_samples());
  const RecordData data = RecordData::open(folder / "a.safetensors", inputs);
  EXPECT_EQ(data.size(), 3);
  const RecordSamples samples(data, 7);
  std::set<int64_t> seen;
  for (int64_t index = 0; index < 3; ++index) {
    int64_t label = -1;
    EXPECT_EQ(samples.read("label", index, {}, false, reinterpret_cast<std::byte*>(&label)), 8);
    seen.insert(label);
    float part[2] = {};
    const sbp::Range ranges[] = {{1, 2}, {1, 3}};
    EXPECT_EQ(samples.read("x", index, ranges, false, reinterpret_cast<std::byte*>(part)), 8);
    EXPECT_EQ(part[0], static_cast<float>(10 * label + 4));
    EXPECT_EQ(part[1], static_cast<float>(10 * label + 5));
    double wide[2] = {};
    EXPECT_EQ(samples.read("x", index, ranges, true, reinterpret_cast<std::byte*>(wide)), 16);
    EXPECT_EQ(wide[1], static_cast<double>(10 * label + 5));
  }
  EXPECT_EQ(seen, (std::set<int64_t>{0, 1, 2}));
}

TEST(RecordData, IdentityIsOfTheInputsThatAreRead) {
  const TemporaryFolder folder;
  StoredFile file = three_samples();
  write_safetensors(folder / "a.safetensors", file);
  file.tensors["other"] = stored<float>({{1}, DType::float32}, {1});
  write_safetensors(folder / "b.safetensors", file);
  file.tensors["label"].bytes[0] = std::byte{3};
  write_safetensors(folder / "c.safetensors", file);
  const auto identity = [&](const char* name) { return RecordData::open(folder / name, inputs).identity(); };
  EXPECT_THAT(identity("a.safetensors"), testing::MatchesRegex("3 samples of fingerprint [0-9a-f]{16}"));
  EXPECT_EQ(identity("a.safetensors"), identity("b.safetensors"));
  EXPECT_NE(identity("a.safetensors"), identity("c.safetensors"));
}

TEST(RecordData, RefusesBadFiles) {
  const TemporaryFolder folder;
  const auto refused = [&](auto change) {
    StoredFile file = three_samples();
    change(file.tensors);
    write_safetensors(folder / "a.safetensors", file);
    return message_of(folder, [&] { RecordData::open(folder / "a.safetensors", inputs); });
  };
  EXPECT_EQ(refused([](auto& t) { t.erase("label"); }),
            "2: a.safetensors: has no tensor label, an input of the graph");
  EXPECT_EQ(refused([](auto& t) {
              t["x"] = stored<float>({{3, 2}, DType::float32}, std::vector<float>(6));
            }),
            "2: a.safetensors: x: is float32[3, 2], expected samples of float32[2, 3]");
  EXPECT_EQ(refused([](auto& t) {
              t["label"] = stored<float>({{3}, DType::float32}, {0, 1, 2});
            }),
            "2: a.safetensors: label: is float32, expected int64 or int32");
  EXPECT_EQ(refused([](auto& t) {
              t["label"] = stored<int64_t>({{3}, DType::int64}, {0, 1, 5});
            }),
            "2: a.safetensors: label: has 5, expected 0 to 4");
  EXPECT_EQ(refused([](auto& t) {
              t["label"] = stored<int64_t>({{3}, DType::int64}, {0, -1, 4});
            }),
            "2: a.safetensors: label: has -1, expected 0 to 4");
  EXPECT_EQ(refused([](auto& t) {
              t["label"] = stored<int64_t>({{2}, DType::int64}, {0, 1});
            }),
            "2: a.safetensors: label: has 2 samples, expected 3");
  EXPECT_EQ(refused([](auto& t) {
              t["x"] = stored<float>({{0, 2, 3}, DType::float32}, {});
            }),
            "2: a.safetensors: x: has 0 samples, expected 1 or more");
}

TEST(RecordData, DrawsNumbersThatTheGraphCanRead) {
  const RecordData data = RecordData::random(inputs, 1);
  EXPECT_EQ(data.size(), 256);
  std::set<int64_t> labels;
  for (size_t i = 0; i < 256; ++i) {
    int64_t label = -1;
    std::memcpy(&label, data.tensor("label").bytes.data() + i * sizeof label, sizeof label);
    labels.insert(label);
  }
  EXPECT_EQ(labels, (std::set<int64_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(data.identity(), RecordData::random(inputs, 1).identity());
  EXPECT_NE(data.identity(), RecordData::random(inputs, 2).identity());
  const TemporaryFolder folder;
  EXPECT_EQ(message_of(folder,
                       [] {
                         RecordData::random({{"n", {{}, DType::int64}, 0}}, 1);
                       }),
            "2: %n: no op that reads it limits its whole numbers, so none can be drawn; give data");
  EXPECT_EQ(message_of(folder,
                       [] {
                         RecordData::random({{"h", {{}, DType::float16}, 0}}, 1);
                       }),
            "2: %h: is float16; inputs that are trained on are float32 or int64");
}

}  // namespace
}  // namespace boxcar::tests
