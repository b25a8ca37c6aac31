#include "backends/host/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <utility>

#include "backends/host/files.h"
#include "backends/host/json_file.h"
#include "sbp/error.h"

namespace boxcar::backends::host {
namespace {

using Json = nlohmann::ordered_json;
using ir::DType;

static_assert(std::endian::native == std::endian::little, "the format is little-endian, as this machine is");

constexpr uint64_t kLongestHeader = 100'000'000;  // the format's own limit
constexpr const char* kMetadata = "__metadata__";

constexpr std::pair<DType, const char*> kTypes[] = {
    {DType::float64, "F64"},    {DType::int64, "I64"},   {DType::float32, "F32"},
    {DType::int32, "I32"},      {DType::float16, "F16"}, {DType::bfloat16, "BF16"},
    {DType::float8, "F8_E4M3"}, {DType::int8, "I8"},     {DType::boolean, "BOOL"}};

const char* name_of(DType dtype) {
  return std::find_if(std::begin(kTypes), std::end(kTypes), [&](auto& row) { return row.first == dtype; })
      ->second;
}

// --- writing

std::vector<const std::pair<const std::string, StoredTensor>*> by_width(const StoredFile& file) {
  std::vector<const std::pair<const std::string, StoredTensor>*> order;
  for (const auto& entry : file.tensors) order.push_back(&entry);
  std::stable_sort(order.begin(), order.end(), [](auto* a, auto* b) {
    return ir::size_of(a->second.type.dtype) > ir::size_of(b->second.type.dtype);
  });
  return order;
}

}  // namespace

void write_safetensors(const std::string& path, const StoredFile& file) {
  Json header = Json::object();
  if (!file.metadata.empty()) header[kMetadata] = file.metadata;
  std::vector<Bytes> parts(2);
  int64_t at = 0;
  for (const auto* entry : by_width(file)) {
    const auto& [name, tensor] = *entry;
    const auto size = static_cast<int64_t>(tensor.bytes.size());
    if (size != tensor.type.bytes())
      throw Error::fault(path, fmt::format("tensor '{}' is {} and has {} bytes, expected {}", name,
                                           ir::to_text(tensor.type), size, tensor.type.bytes()));
    header[name] = {{"dtype", name_of(tensor.type.dtype)},
                    {"shape", tensor.type.shape},
                    {"data_offsets", {at, at + size}}};
    at += size;
    parts.emplace_back(tensor.bytes);
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const auto length = static_cast<uint64_t>(text.size());
  parts[0] = std::as_bytes(std::span(&length, 1));
  parts[1] = bytes_of(text);
  write_whole(path, parts);
}

// --- reading

namespace {

class Reader {
 public:
  explicit Reader(const std::string& path) : file_(path) {}

  StoredFile run() {
    const Json header = read_header();
    StoredFile result;
    for (const auto& [name, value] : header.items())
      name == kMetadata ? read_metadata(value, result) : add_place(name, value, result);
    check_places();
    for (const Place& place : places_) {
      StoredTensor& tensor = result.tensors.at(place.name);
      tensor.bytes.resize(place.end - place.begin);
      file_.read(static_cast<int64_t>(data_ + place.begin), tensor.bytes);
    }
    return result;
  }

 private:
  struct Place {
    uint64_t begin, end;
    std::string name;
  };

  [[noreturn]] void refuse(const std::string& message) const {
    throw Error::input(file_.path(), "is not a safetensors file: " + message);
  }
  [[noreturn]] void refuse(const std::string& name, const std::string& message) const {
    refuse(fmt::format("tensor '{}' {}", name, message));
  }

  Json read_header() {
    if (file_.size() < 8)
      refuse(fmt::format("it has {} bytes, expected at least the 8 of the header's length", file_.size()));
    const auto size = static_cast<uint64_t>(file_.size());
    uint64_t length = 0;
    file_.read(0, std::as_writable_bytes(std::span(&length, 1)));
    if (length > kLongestHeader)
      refuse(fmt::format("its header is said to have {} bytes, expected at most {}", length, kLongestHeader));
    if (length > size - 8)
      refuse(fmt::format("its header is said to have {} bytes, and {} follow", length, size - 8));
    std::string text(length, '\0');
    file_.read(8, std::as_writable_bytes(std::span(text)));
    data_ = 8 + length;
    data_size_ = size - data_;
    return parse(text);
  }

  Json parse(const std::string& text) const {
    std::vector<std::set<std::string>> keys;  // of the objects that are open
    const auto watch = [&](int depth, Json::parse_event_t event, Json& value) {
      if (depth > deepest_json) refuse(fmt::format("its header is nested deeper than {}", deepest_json));
      if (event == Json::parse_event_t::object_start) keys.emplace_back();
      if (event == Json::parse_event_t::object_end) keys.pop_back();
      if (event == Json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second)
        refuse(fmt::format("its header has the key '{}' twice", value.get<std::string>()));
      return true;
    };
    try {
      Json header = Json::parse(text, watch);
      if (!header.is_object()) refuse("its header is no JSON object");
      return header;
    } catch (const Json::parse_error& error) {
      refuse(fmt::format("its header is not JSON at byte {}", error.byte));
    } catch (const Json::exception&) {  // 1e999
      refuse("its header has a number beyond a double");
    }
  }

  void read_metadata(const Json& value, StoredFile& result) const {
    if (!value.is_object()) refuse("__metadata__ is no JSON object");
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string()) refuse(fmt::format("__metadata__ has '{}' that is no text", key));
      result.metadata.emplace(key, text.get<std::string>());
    }
  }

  DType read_dtype(const std::string& name, const Json& value) const {
    std::vector<const char*> known;
    for (const auto& [dtype, text] : kTypes) {
      if (value == text) return dtype;
      known.push_back(text);
    }
    refuse(name, fmt::format("has dtype {}, known are {}", value.dump(), fmt::join(known, ", ")));
  }

  // A list of whole numbers, none of them negative.
  std::vector<uint64_t> read_numbers(const std::string& name, const char* key, const Json& value) const {
    const auto whole = [](const Json& number) {
      return number.is_number_unsigned() && number.get<uint64_t>() <= uint64_t{INT64_MAX};
    };
    if (!value.is_array() || !std::all_of(value.begin(), value.end(), whole))
      refuse(name, fmt::format("has {} {}, expected a list of whole numbers", key, value.dump()));
    return value.get<std::vector<uint64_t>>();
  }

  void add_place(const std::string& name, const Json& value, StoredFile& result) {
    for (const char* key : {"dtype", "shape", "data_offsets"})
      if (!value.is_object() || !value.contains(key)) refuse(name, fmt::format("has no {}", key));
    for (const auto& [key, unused] : value.items())
      if (key != "dtype" && key != "shape" && key != "data_offsets")
        refuse(name, fmt::format("has an unknown key '{}'", key));
    const DType dtype = read_dtype(name, value.at("dtype"));
    const std::vector<uint64_t> shape = read_numbers(name, "shape", value.at("shape"));
    const std::vector<uint64_t> offsets = read_numbers(name, "data_offsets", value.at("data_offsets"));
    if (offsets.size() != 2 || offsets[0] > offsets[1])
      refuse(name,
             fmt::format("has data_offsets {}, expected begin and end", value.at("data_offsets").dump()));
    if (offsets[1] > data_size_)
      refuse(name, fmt::format("ends at byte {} of the data, which has {}", offsets[1], data_size_));
    const std::string type =
        fmt::format("{} {}", value.at("dtype").get<std::string>(), value.at("shape").dump());
    const uint64_t wanted = bytes_of_shape(shape, dtype), got = offsets[1] - offsets[0];
    if (wanted > data_size_)
      refuse(name, fmt::format("is {}, more than all {} bytes of data", type, data_size_));
    if (wanted != got) refuse(name, fmt::format("is {}, {} bytes, and has {}", type, wanted, got));
    places_.push_back({offsets[0], offsets[1], name});
    result.tensors[name].type = {ir::Shape(shape.begin(), shape.end()), dtype};
  }

  // At most data_size_ + 1, which stands for any larger number.
  uint64_t bytes_of_shape(const std::vector<uint64_t>& shape, DType dtype) const {
    auto bytes = static_cast<uint64_t>(ir::size_of(dtype));
    if (std::find(shape.begin(), shape.end(), 0u) != shape.end()) return 0;
    for (uint64_t extent : shape) {
      if (extent > data_size_ / bytes) return data_size_ + 1;
      bytes *= extent;
    }
    return bytes;
  }

  // Every byte of the data belongs to one tensor.
  void check_places() {
    std::sort(places_.begin(), places_.end(), [](const Place& a, const Place& b) {
      return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
    });
    uint64_t at = 0;
    for (const Place& place : places_) {
      if (place.begin != at)
        refuse(place.name,
               fmt::format("begins at byte {} of the data, expected {}, where the one before ends",
                           place.begin, at));
      at = place.end;
    }
    if (at != data_size_)
      refuse(fmt::format("its tensors have {} bytes, and {} follow the header", at, data_size_));
  }

  InputFile file_;
  uint64_t data_ = 0, data_size_ = 0;
  std::vector<Place> places_;
};

}  // namespace

StoredFile read_safetensors(const std::string& path) { return Reader(path).run(); }

}  // namespace boxcar::backends::host
