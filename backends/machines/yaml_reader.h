// The visitor that reads constants from YAML (constants.h, collective_model.h, framework.h): keys that are
// present, within bounds; it leaves the rest as it is.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/machines/device_profile.h"
#include "backends/machines/strict_yaml.h"
#include "ir/types.h"
#include "sbp/words.h"

namespace boxcar::backends {

class YamlReader {
 public:
  static constexpr bool reads = true;

  explicit YamlReader(Fields& fields) : fields_(&fields) {}

  void number(const std::string& key, double least, double most, double& to) {
    fields_->number(key.c_str(), least, most, &to);
  }
  void number(const std::string& key, double least, double most, std::optional<double>& to) {
    double value = 0;
    if (fields_->number(key.c_str(), least, most, &value)) to = value;
  }
  template <class Whole>
  void whole(const std::string& key, Whole least, Whole most, Whole& to) {
    fields_->integer(key.c_str(), least, most, &to);
  }
  void flag(const std::string& key, bool& to) { fields_->flag(key.c_str(), &to); }
  void text(const std::string& key, std::string& to) { fields_->text(key.c_str(), &to); }
  template <typename Enum>
  void word(const std::string& key, Enum& to) {
    std::string text;
    if (!fields_->text(key.c_str(), &text)) return;
    const std::optional<Enum> known = parse_word<Enum>(text);
    if (!known)
      fields_->fail(key.c_str(),
                    fmt::format("is \"{}\", expected {}", text, fmt::join(words_of(Enum()), ", ")));
    to = *known;
  }
  void texts(const std::string& key, std::map<std::string, std::string>& to) {
    fields_->texts(key.c_str(), &to);
  }
  void curve(const std::string& key, Curve& to) { fields_->points(key.c_str(), 1e-6, 1.5, &to.x, &to.y); }
  void tiles(const std::string& key, std::vector<MatmulModel::Tile>& to) {
    std::vector<std::vector<double>> rows;
    if (fields_->rows(key.c_str(), 3, 1e-3, 1e4, &rows)) to.clear();
    for (const auto& row : rows) {
      to.push_back({static_cast<int>(row[0]), static_cast<int>(row[1]), row[2]});
      if (row[0] < 1 || row[1] < 1 || row[2] > 1.5)
        fields_->fail(key.c_str(), "a tile is [rows, columns, share of peak]");
    }
  }
  void types(double least, double most, std::map<ir::DType, double>& to) {
    for (const auto& [type, name] : peak_types) {
      double value = 0;
      if (fields_->number(name, least, most, &value)) to[type] = value;
    }
  }
  void names(const std::string& key, double least, double most, auto& to) {
    std::vector<std::pair<std::string, double>> values;
    fields_->numbers(key.c_str(), least, most, &values);
    for (const auto& [name, number] : values) to[name] = number;
  }
  void inside(const std::string& key, bool, const auto& work) {
    const auto fields = fields_->map(key.c_str());
    if (!fields) return;
    Fields* const outside = std::exchange(fields_, fields.get());
    work();
    fields->done();
    fields_ = outside;
  }
  void line(const std::string& key, bool written, const auto& work) { inside(key, written, work); }
  template <class Model>
  void by_type(const std::string& key, std::map<ir::DType, Model>& models, const auto& work) {
    inside(key, true, [&] {
      for (const auto& peak : peak_types) inside(peak.name, true, [&] { work(models[peak.kind]); });
    });
  }
  template <class Model>
  void by_name(const std::string& key, std::map<std::string, Model>& models, const auto& work) {
    inside(key, true, [&] {
      for (const std::string& name : fields_->names()) inside(name, true, [&] { work(models[name]); });
    });
  }
  template <class Model>
  void optional(const std::string& key, std::optional<Model>& model, const auto& work) {
    inside(key, true, [&] { work(model ? *model : model.emplace()); });
  }
  void require(const char* key) { fields_->require(key); }

 private:
  struct TypeName {
    ir::DType kind;
    const char* name;
  };
  // tf32 is no type of a tensor.
  static constexpr TypeName peak_types[] = {
      {ir::DType::float64, "float64"},   {ir::DType::float32, "float32"}, {ir::DType::float16, "float16"},
      {ir::DType::bfloat16, "bfloat16"}, {ir::DType::float8, "float8"},   {ir::DType::int8, "int8"}};

  Fields* fields_;
};

}  // namespace boxcar::backends
