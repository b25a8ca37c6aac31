#include "backends/host/safetensors.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <csignal>
#include <random>

#include "temporary.h"

namespace boxcar::tests {
namespace {

using backends::host::read_safetensors;
using backends::host::StoredFile;
using backends::host::StoredTensor;
using backends::host::write_safetensors;
using ir::DType;

StoredTensor random_tensor(std::mt19937_64& random, DType dtype, ir::Shape shape) {
  StoredTensor tensor{{std::move(shape), dtype}, {}};
  for (int64_t i = 0; i < tensor.type.bytes(); ++i)
    tensor.bytes.push_back(static_cast<std::byte>(dtype == DType::boolean ? random() & 1 : random() & 0xff));
  return tensor;
}

// A file as text: the header's length, the header, `data` bytes.
std::string file_of(const std::string& header, size_t data) {
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + header + std::string(data, 'd');
}

TEST(Safetensors, ReadsBackWhatItWrote) {
  constexpr DType types[] = {DType::float64, DType::float32, DType::float16, DType::bfloat16, DType::float8,
                             DType::int64,   DType::int32,   DType::int8,    DType::boolean};
  std::mt19937_64 random(3);
  const TemporaryFolder folder;
  for (int round = 0; round < 20; ++round) {
    StoredFile file;
    for (int64_t i = static_cast<int64_t>(random() % 12); i-- > 0;) {
      ir::Shape shape;
      for (auto rank = random() % 4; rank-- > 0;) shape.push_back(static_cast<int64_t>(random() % 4));
      file.tensors[fmt::format("tensor.{} \"\\\xc3\xa4", i)] =
          random_tensor(random, types[random() % 9], shape);
    }
    if (round % 2 == 0) file.metadata = {{"format", "pt"}, {"line", "a\nb"}};
    write_safetensors(folder / "a.safetensors", file);
    EXPECT_EQ(read_safetensors(folder / "a.safetensors"), file);
  }
}

TEST(Safetensors, IsThePublishedFormat) {
  const TemporaryFolder folder;
  const StoredTensor a{{{3}, DType::int8}, {std::byte{1}, std::byte{2}, std::byte{3}}};
  const StoredTensor b{{{}, DType::int32}, {std::byte{4}, std::byte{5}, std::byte{6}, std::byte{7}}};
  write_safetensors(folder / "a", {{{"ab", a}, {"b", b}}, {{"format", "pt"}}});
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"I32","shape":[],"data_offsets":[0,4]},)"
      R"("ab":{"dtype":"I8","shape":[3],"data_offsets":[4,7]}}       )";
  ASSERT_EQ(header.size() % 8, 0u);
  EXPECT_EQ(contents(folder / "a"), file_of(header, 0) + "\x04\x05\x06\x07\x01\x02\x03");
  EXPECT_FALSE(std::filesystem::exists(folder / "a.tmp"));
}

TEST(Safetensors, ReadsHeadersWithSpacesAndAnyOrder) {
  const TemporaryFolder folder;
  const std::string header = R"( { "b" : {"shape": [2], "data_offsets": [2, 4], "dtype": "I8"},
    "a": {"dtype": "F16", "shape": [1, 1], "data_offsets": [0, 2]}}   )";
  const StoredFile file = read_safetensors(folder.file("a", file_of(header, 4)));
  EXPECT_EQ(file.tensors.at("a").type, (ir::TensorType{{1, 1}, DType::float16}));
  EXPECT_EQ(file.tensors.at("b").bytes, std::vector<std::byte>(2, std::byte{'d'}));
  EXPECT_TRUE(file.metadata.empty());
}

TEST(Safetensors, RefusesDamage) {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& bytes) {
    const std::string path = folder.file("x", bytes);
    return message_of(folder, [&] { read_safetensors(path); });
  };
  const auto header = [&](const std::string& text, size_t data = 0) { return refused(file_of(text, data)); };
  const std::string is_none = "2: x: is not a safetensors file: ";

  EXPECT_EQ(message_of(folder, [&] { read_safetensors(folder / "none"); }),
            "2: none: cannot be read: No such file or directory");
  EXPECT_EQ(refused("1234567"), is_none + "it has 7 bytes, expected at least the 8 of the header's length");
  EXPECT_EQ(refused(std::string(8, '\xff')),
            is_none + "its header is said to have 18446744073709551615 bytes, expected at most 100000000");
  EXPECT_EQ(refused(file_of("{}", 0).substr(0, 9)),
            is_none + "its header is said to have 2 bytes, and 1 follow");
  EXPECT_EQ(header("{\"a\": }"), is_none + "its header is not JSON at byte 7");
  EXPECT_EQ(header("{\"a\xff\": 1}"), is_none + "its header is not JSON at byte 4");
  EXPECT_EQ(header(""), is_none + "its header is not JSON at byte 1");
  EXPECT_EQ(header("{\"a\": 1e999}"), is_none + "its header has a number beyond a double");
  EXPECT_EQ(header(std::string(100'000, '[')), is_none + "its header is nested deeper than 64");
  EXPECT_EQ(header("[1, 2]"), is_none + "its header is no JSON object");
  EXPECT_EQ(header(R"({"a": 1, "a": 2})"), is_none + "its header has the key 'a' twice");
  EXPECT_EQ(header(R"({"__metadata__": ["pt"]})"), is_none + "__metadata__ is no JSON object");
  EXPECT_EQ(header(R"({"__metadata__": {"n": 3}})"), is_none + "__metadata__ has 'n' that is no text");
  EXPECT_EQ(header(R"({"a": 1})"), is_none + "tensor 'a' has no dtype");
  EXPECT_EQ(header(R"({"a": {"dtype": "F32", "data_offsets": [0, 4]}})", 4),
            is_none + "tensor 'a' has no shape");
  EXPECT_EQ(header(R"({"a": {"dtype": "F32", "shape": [1]}})", 4),
            is_none + "tensor 'a' has no data_offsets");
  EXPECT_EQ(header(R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4], "more": 1}})", 4),
            is_none + "tensor 'a' has an unknown key 'more'");

  const auto tensor = [&](const std::string& dtype, const std::string& shape, const std::string& offsets,
                          size_t data) {
    return header(
        fmt::format(R"({{"a": {{"dtype": {}, "shape": {}, "data_offsets": {}}}}})", dtype, shape, offsets),
        data);
  };
  EXPECT_EQ(
      tensor("\"U7\"", "[1]", "[0, 1]", 1),
      is_none + "tensor 'a' has dtype \"U7\", known are F64, I64, F32, I32, F16, BF16, F8_E4M3, I8, BOOL");
  EXPECT_EQ(tensor("4", "[1]", "[0, 1]", 1),
            is_none + "tensor 'a' has dtype 4, known are F64, I64, F32, I32, F16, BF16, F8_E4M3, I8, BOOL");
  EXPECT_EQ(tensor("\"F32\"", "[-1]", "[0, 4]", 4),
            is_none + "tensor 'a' has shape [-1], expected a list of whole numbers");
  EXPECT_EQ(tensor("\"F32\"", "[1.5]", "[0, 4]", 4),
            is_none + "tensor 'a' has shape [1.5], expected a list of whole numbers");
  EXPECT_EQ(tensor("\"F32\"", "3", "[0, 4]", 4),
            is_none + "tensor 'a' has shape 3, expected a list of whole numbers");
  EXPECT_EQ(tensor("\"F32\"", "[0, 9223372036854775808]", "[0, 0]", 0),
            is_none + "tensor 'a' has shape [0,9223372036854775808], expected a list of whole numbers");
  EXPECT_EQ(tensor("\"F32\"", "[1]", "[0, -4]", 4),
            is_none + "tensor 'a' has data_offsets [0,-4], expected a list of whole numbers");
  EXPECT_EQ(tensor("\"F32\"", "[1]", "[4, 0]", 4),
            is_none + "tensor 'a' has data_offsets [4,0], expected begin and end");
  EXPECT_EQ(tensor("\"F32\"", "[1]", "[0, 4, 8]", 8),
            is_none + "tensor 'a' has data_offsets [0,4,8], expected begin and end");
  EXPECT_EQ(tensor("\"F32\"", "[2]", "[0, 8]", 4),
            is_none + "tensor 'a' ends at byte 8 of the data, which has 4");
  EXPECT_EQ(tensor("\"F32\"", "[2]", "[0, 4]", 8), is_none + "tensor 'a' is F32 [2], 8 bytes, and has 4");
  EXPECT_EQ(tensor("\"F32\"", "[4294967296, 4294967296]", "[0, 4]", 4),
            is_none + "tensor 'a' is F32 [4294967296,4294967296], more than all 4 bytes of data");
  EXPECT_EQ(tensor("\"F32\"", "[1]", "[0, 4]", 6),
            is_none + "its tensors have 4 bytes, and 6 follow the header");
  EXPECT_EQ(tensor("\"F32\"", "[1]", "[4, 8]", 8),
            is_none + "tensor 'a' begins at byte 4 of the data, expected 0, where the one before ends");
  EXPECT_EQ(header(R"({"a": {"dtype": "I8", "shape": [4], "data_offsets": [0, 4]},
                       "b": {"dtype": "I8", "shape": [4], "data_offsets": [2, 6]}})",
                   6),
            is_none + "tensor 'b' begins at byte 2 of the data, expected 4, where the one before ends");
}

// Cut anywhere, a file is refused.
TEST(Safetensors, RefusesEveryTruncation) {
  const TemporaryFolder folder;
  std::mt19937_64 random(9);
  write_safetensors(folder / "a", {{{"w", random_tensor(random, DType::float32, {3})}}, {}});
  const std::string whole = contents(folder / "a");
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::string path = folder.file("cut", whole.substr(0, size));
    EXPECT_THROW(read_safetensors(path), Error) << size;
  }
}

TEST(Safetensors, SaysWhyItCannotWrite) {
  const TemporaryFolder folder;
  EXPECT_EQ(message_of(folder, [&] { write_safetensors(folder / "none/a", {}); }),
            "3: none/a.tmp: cannot be created: No such file or directory");
  std::filesystem::create_directory(folder / "a");
  EXPECT_EQ(message_of(folder, [&] { write_safetensors(folder / "a", {}); }),
            "3: a: cannot be replaced: Is a directory");
  EXPECT_FALSE(std::filesystem::exists(folder / "a.tmp"));
  const StoredTensor wrong{{{2}, DType::float32}, std::vector<std::byte>(7)};
  EXPECT_EQ(message_of(folder,
                       [&] {
                         write_safetensors(folder / "b", {{{"w", wrong}}, {}});
                       }),
            "3: b: tensor 'w' is float32[2] and has 7 bytes, expected 8");
}

// A disk that fills up after a few bytes, by a limit on file size.
TEST(Safetensors, LeavesTheOldFileWhereTheNewOneDoesNotFit) {
  const TemporaryFolder folder;
  std::mt19937_64 random(9);
  const StoredFile small{{{"w", random_tensor(random, DType::float32, {3})}}, {}};
  const StoredFile large{{{"w", random_tensor(random, DType::float32, {30000})}}, {}};
  write_safetensors(folder / "a", small);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit few{20000, before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &few);
  const std::string message = message_of(folder, [&] { write_safetensors(folder / "a", large); });
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(message, "3: a.tmp: cannot be written: File too large");
  EXPECT_EQ(read_safetensors(folder / "a"), small);
  EXPECT_FALSE(std::filesystem::exists(folder / "a.tmp"));
}

}  // namespace
}  // namespace boxcar::tests
