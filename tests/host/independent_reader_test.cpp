// Our files, read by a few lines of Python written only from the format's description.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "backends/host/checkpoint.h"
#include "models.h"
#include "temporary.h"

namespace boxcar::tests {
namespace {

using backends::host::StoredFile;
using ir::DType;

uint32_t crc32(const std::vector<std::byte>& bytes) {
  uint32_t crc = ~0u;
  for (std::byte b : bytes) {
    crc ^= std::to_integer<uint32_t>(b);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
  }
  return ~crc;
}

const std::map<DType, std::string> kNames = {
    {DType::float64, "F64"},    {DType::int64, "I64"},   {DType::float32, "F32"},
    {DType::int32, "I32"},      {DType::float16, "F16"}, {DType::bfloat16, "BF16"},
    {DType::float8, "F8_E4M3"}, {DType::int8, "I8"},     {DType::boolean, "BOOL"}};

// The reader's expected output for a file.
std::string listing(const StoredFile& file) {
  std::string text = file.metadata.empty() ? "{}\n" : "{\"format\": \"pt\"}\n";
  for (const auto& [name, tensor] : file.tensors)
    text += fmt::format("{} {} [{}] {:08x}\n", name, kNames.at(tensor.type.dtype),
                        fmt::join(tensor.type.shape, ", "), crc32(tensor.bytes));
  return text;
}

std::string read_by_python(const std::string& path) {
  const std::string command =
      fmt::format("{} {}/tests/host/safetensors_reader.py {} 2>&1", BOXCAR_PYTHON, BOXCAR_SOURCE_DIR, path);
  FILE* pipe = popen(command.c_str(), "r");
  std::string text;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) text += static_cast<char>(c);
  EXPECT_EQ(pclose(pipe), 0) << text;
  return text;
}

TEST(IndependentReader, ReadsEveryType) {
  std::mt19937_64 random(61);
  const TemporaryFolder folder;
  StoredFile file;
  for (const auto& [dtype, name] : kNames) {
    file.tensors["some." + name] = random_stored(random, {{3, 5}, dtype});
    file.tensors["scalar." + name] = random_stored(random, {{}, dtype});
    file.tensors["empty." + name] = random_stored(random, {{0, 2}, dtype});
  }
  write_safetensors(folder / "a", file);
  EXPECT_EQ(read_by_python(folder / "a"), listing(file));
}

TEST(IndependentReader, ReadsModels) {
  using backends::host::Architecture;
  std::mt19937_64 random(62);
  const TemporaryFolder folder;
  for (const Architecture architecture : {Architecture::gpt2, Architecture::llama}) {
    const ir::models::Transformer model = random_model(random, architecture);
    const StoredFile file = to_hugging_face(model, random_weights(random, model));
    write_safetensors(folder / "a", file);
    EXPECT_EQ(read_by_python(folder / "a"), listing(file));
  }
}

}  // namespace
}  // namespace boxcar::tests
