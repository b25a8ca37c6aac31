// Reads ONNX files: protobuf's messages become plain values (onnx_model.h).
#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <utility>

#include "backends/host/parts.h"
#include "backends/onnx/onnx_model.h"
#include "ir/limits.h"
#include "onnx.pb.h"
#include "sbp/error.h"

namespace boxcar::backends::onnx {
namespace {

namespace fs = std::filesystem;
using ir::DType;

// ONNX's element types, by number.
struct ElementType {
  int number;
  DType stored, read;  // as it lies in the file, and as it is read
};
constexpr ElementType element_types[] = {
    {1, DType::float32, DType::float32},  {6, DType::int32, DType::int64},
    {7, DType::int64, DType::int64},      {9, DType::boolean, DType::boolean},
    {10, DType::float16, DType::float32}, {11, DType::float64, DType::float32},
    {16, DType::bfloat16, DType::float32}};

const ElementType* element_type(int number) {
  const auto* found = std::find_if(std::begin(element_types), std::end(element_types),
                                   [&](const ElementType& type) { return type.number == number; });
  return found == std::end(element_types) ? nullptr : found;
}

class Reader {
 public:
  explicit Reader(std::string path) : path_(std::move(path)) {}

  OnnxModel run(const std::string& bytes) {
    proto::ModelProto file;
    if (bytes.size() > static_cast<size_t>(std::numeric_limits<int>::max()))
      refuse("is larger than 2 GiB (export it with external data)");
    google::protobuf::io::ArrayInputStream stream(bytes.data(), static_cast<int>(bytes.size()));
    google::protobuf::io::CodedInputStream coded(&stream);
    coded.SetTotalBytesLimit(std::numeric_limits<int>::max());
    if (!file.ParseFromCodedStream(&coded) || !coded.ConsumedEntireMessage() || !file.has_graph())
      refuse("is no ONNX model");
    OnnxModel model;
    for (const proto::OperatorSetIdProto& set : file.opset_import())
      if (set.domain().empty() || set.domain() == "ai.onnx") model.opset = set.version();
    read(file.graph(), model);
    return model;
  }

 private:
  [[noreturn]] void refuse(const std::string& message) const { throw Error::input(path_, message); }
  [[noreturn]] void refuse(const std::string& what, const std::string& message) const {
    refuse(fmt::format("{}: {}", what, message));
  }

  void read(const proto::GraphProto& graph, OnnxModel& model) {
    for (const proto::TensorProto& tensor : graph.initializer())
      if (!model.weights.emplace(tensor.name(), weight(tensor, tensor.name())).second)
        refuse(tensor.name(), "is there twice");
    for (const proto::ValueInfoProto& input : graph.input())
      if (!model.weights.contains(input.name())) model.inputs.push_back(value(input));
    for (const proto::ValueInfoProto& output : graph.output()) model.outputs.push_back(value(output));
    std::set<std::string> known;
    for (const auto& [name, tensor] : model.weights) known.insert(name);
    for (const OnnxValue& input : model.inputs) known.insert(input.name);
    for (const proto::NodeProto& node : graph.node()) {
      model.nodes.push_back(read(node));
      for (const std::string& input : model.nodes.back().inputs)
        if (!input.empty() && !known.contains(input))
          refuse(node.name(), fmt::format("reads {}, which is not defined before it", input));
      for (const std::string& output : model.nodes.back().outputs)
        if (!output.empty() && !known.insert(output).second)
          refuse(node.name(), fmt::format("defines {} once more", output));
    }
  }

  OnnxNode read(const proto::NodeProto& node) {
    OnnxNode result{node.name(), node.op_type(), {}, {}, {}};
    if (!node.domain().empty() && node.domain() != "ai.onnx")
      result.type = node.domain() + "." + node.op_type();
    result.inputs.assign(node.input().begin(), node.input().end());
    result.outputs.assign(node.output().begin(), node.output().end());
    for (const proto::AttributeProto& attribute : node.attribute())
      result.attributes[attribute.name()] = read(attribute, node.name());
    return result;
  }

  OnnxAttribute read(const proto::AttributeProto& attribute, const std::string& node) {
    if (attribute.has_t()) return weight(attribute.t(), node);
    if (attribute.ints_size() > 0)
      return std::vector<int64_t>(attribute.ints().begin(), attribute.ints().end());
    if (attribute.has_s()) return attribute.s();
    if (attribute.has_f()) return std::stod(fmt::format("{}", attribute.f()));  // 1e-05 as it was written
    if (attribute.has_i()) return attribute.i();
    if (attribute.type() == 7) return std::vector<int64_t>();  // whole numbers, none
    if (attribute.type() == 3) return std::string();
    return {};
  }

  OnnxValue value(const proto::ValueInfoProto& info) {
    OnnxValue result{info.name(), DType::float32, {}};
    const auto& tensor = info.type().tensor_type();
    const ElementType* type = element_type(tensor.elem_type());
    if (!info.type().has_tensor_type() || !type)
      refuse(info.name(), "is no tensor of numbers that are known here");
    result.dtype = type->read;
    for (const auto& extent : tensor.shape().dim())
      result.extents.push_back({std::max<int64_t>(0, extent.dim_value()), extent.dim_param()});
    return result;
  }

  StoredTensor weight(const proto::TensorProto& tensor, const std::string& name) {
    const ElementType* type = element_type(tensor.data_type());
    if (!type)
      refuse(name, fmt::format("has elements of ONNX's type {}, not known here", tensor.data_type()));
    const ir::Shape shape(tensor.dims().begin(), tensor.dims().end());
    if (const std::string flaw = ir::flaw_of({shape, type->stored}); !flaw.empty()) refuse(name, flaw);
    StoredTensor stored{{shape, type->stored}, {}};
    const auto bytes = static_cast<size_t>(stored.type.bytes());
    if (tensor.data_location() == 1)
      stored.bytes = external(tensor, name, bytes);
    else if (tensor.has_raw_data())
      stored.bytes = copy_of(tensor.raw_data().data(), tensor.raw_data().size());
    else
      stored.bytes = typed(tensor, *type);
    if (stored.bytes.size() != bytes)
      refuse(name, fmt::format("has {} bytes, expected {} of {}", stored.bytes.size(), bytes,
                               ir::to_text(stored.type)));
    return converted(std::move(stored), type->read);
  }

  static std::vector<std::byte> copy_of(const void* data, size_t size) {
    const auto* begin = static_cast<const std::byte*>(data);
    return {begin, begin + size};
  }

  template <typename To, typename List>
  static std::vector<std::byte> listed(const List& list) {
    std::vector<To> values;
    values.reserve(static_cast<size_t>(list.size()));
    for (const auto& value : list) values.push_back(static_cast<To>(value));
    return copy_of(values.data(), values.size() * sizeof(To));
  }

  static std::vector<std::byte> typed(const proto::TensorProto& tensor, const ElementType& type) {
    switch (type.stored) {
      case DType::float32:
        return listed<float>(tensor.float_data());
      case DType::float64:
        return listed<double>(tensor.double_data());
      case DType::int64:
        return listed<int64_t>(tensor.int64_data());
      case DType::int32:
        return listed<int32_t>(tensor.int32_data());
      case DType::float16:
      case DType::bfloat16:  // their bits
        return listed<uint16_t>(tensor.int32_data());
      default:
        return listed<uint8_t>(tensor.int32_data());  // booleans
    }
  }

  std::vector<std::byte> external(const proto::TensorProto& tensor, const std::string& name, size_t size) {
    std::string location, offset = "0";
    for (const auto& entry : tensor.external_data()) {
      if (entry.key() == "location") location = entry.value();
      if (entry.key() == "offset") offset = entry.value();
    }
    const fs::path given(location), folder = fs::path(path_).parent_path();
    const bool inside =
        !location.empty() && given.is_relative() &&
        std::none_of(given.begin(), given.end(), [](const fs::path& part) { return part == ".."; });
    if (!inside) refuse(name, fmt::format("lies in \"{}\", outside the model's folder", location));
    if (offset.empty() || offset.size() > 18 || offset.find_first_not_of("0123456789") != std::string::npos)
      refuse(name, fmt::format("begins at \"{}\", expected a number of bytes", offset));
    const fs::path file = folder / given;
    std::error_code error;
    const uintmax_t has = fs::file_size(file, error);
    const uintmax_t begin = std::stoull(offset);
    if (error) refuse(name, fmt::format("{}: {}", file.string(), error.message()));
    if (begin > has || has - begin < size)
      refuse(name,
             fmt::format("{} ends after {} bytes, expected {} from {} on", file.string(), has, size, begin));
    std::vector<std::byte> bytes(size);
    std::ifstream in(file, std::ios::binary);
    in.seekg(static_cast<std::streamoff>(begin));
    in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(size));
    if (!in) refuse(name, fmt::format("{} cannot be read", file.string()));
    return bytes;
  }

  static StoredTensor converted(StoredTensor stored, DType to) {
    const DType from = stored.type.dtype;
    if (from == to) return stored;
    StoredTensor result{{stored.type.shape, to}, {}};
    const int64_t elements = stored.type.elements(), in = ir::size_of(from), out = ir::size_of(to);
    result.bytes.resize(static_cast<size_t>(elements * out));
    for (int64_t i = 0; i < elements; ++i)
      host::store_element(to, result.bytes.data() + i * out,
                          host::load_element(from, stored.bytes.data() + i * in));
    return result;
  }

  std::string path_;
};

}  // namespace

OnnxModel read_onnx(const std::string& path, ReadFile read_file) { return Reader(path).run(read_file(path)); }

}  // namespace boxcar::backends::onnx
