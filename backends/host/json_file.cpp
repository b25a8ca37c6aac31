#include "backends/host/json_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "backends/host/files.h"
#include "sbp/error.h"

namespace boxcar::backends::host {

using Json = nlohmann::ordered_json;

JsonObject::JsonObject(std::string path, Json json) : path_(std::move(path)), json_(std::move(json)) {}

JsonObject JsonObject::read(const std::string& path) {
  const std::string text = read_text(path);
  const auto check = [&](int depth, Json::parse_event_t, Json&) {
    if (depth > deepest_json)
      throw Error::input(path, fmt::format("is JSON that is nested deeper than {}", deepest_json));
    return true;
  };
  try {
    Json json = Json::parse(text, check);
    if (!json.is_object()) throw Error::input(path, "is no JSON object");
    return {path, std::move(json)};
  } catch (const Json::parse_error& error) {
    const size_t at = std::clamp<size_t>(error.byte, 1, text.size() + 1) - 1;  // counted from 1
    const auto begin = text.begin(), end = begin + static_cast<std::ptrdiff_t>(at);
    const auto line = std::count(begin, end, '\n') + 1;
    const size_t column = at == 0 ? 0 : text.rfind('\n', at - 1) + 1;  // none before: npos + 1 is 0
    throw Error::input(fmt::format("{}:{}:{}", path, line, at - column + 1), "is not JSON");
  } catch (const Json::exception&) {  // 1e999
    throw Error::input(path, "is JSON with a number beyond a double");
  }
}

void JsonObject::refuse(const std::string& message) const { throw Error::input(path_, message); }

void JsonObject::refuse(const std::string& key, const std::string& expected) const {
  refuse(fmt::format("{} is {}, expected {}", key, json_.at(key).dump(), expected));
}

bool JsonObject::has(const std::string& key) const { return json_.contains(key) && !json_.at(key).is_null(); }

const Json& JsonObject::at(const std::string& key) const {
  if (!has(key)) refuse(fmt::format("has no {}", key));
  return json_.at(key);
}

int64_t JsonObject::whole(const std::string& key, int64_t least, std::optional<int64_t> absent) const {
  if (absent && !has(key)) return *absent;
  const Json& value = at(key);
  if (!value.is_number_integer() || value.get<int64_t>() < least)
    refuse(key, fmt::format("a whole number of at least {}", least));
  if (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX})
    refuse(key, fmt::format("a whole number of at most {}", INT64_MAX));
  return value.get<int64_t>();
}

double JsonObject::number(const std::string& key, std::optional<double> absent) const {
  if (absent && !has(key)) return *absent;
  if (!at(key).is_number()) refuse(key, "a number");
  return at(key).get<double>();
}

bool JsonObject::flag(const std::string& key, std::optional<bool> absent) const {
  if (absent && !has(key)) return *absent;
  if (!at(key).is_boolean()) refuse(key, "true or false");
  return at(key).get<bool>();
}

std::string JsonObject::text(const std::string& key, std::optional<std::string> absent) const {
  if (absent && !has(key)) return *absent;
  if (!at(key).is_string()) refuse(key, "a text");
  return at(key).get<std::string>();
}

JsonObject JsonObject::object(const std::string& key) const {
  if (!at(key).is_object()) refuse(key, "an object");
  return {path_ + ": " + key, at(key)};
}

std::vector<int64_t> JsonObject::wholes(const std::string& key) const {
  std::vector<int64_t> numbers;
  if (!has(key)) return numbers;
  const Json& list = at(key);
  if (!list.is_array()) refuse(key, "a list of whole numbers");
  for (const Json& value : list) {
    if (!value.is_number_integer()) refuse(key, "a list of whole numbers");
    numbers.push_back(value.get<int64_t>());
  }
  return numbers;
}

std::vector<std::string> JsonObject::texts(const std::string& key) const {
  std::vector<std::string> texts;
  if (!has(key)) return texts;
  const Json& list = at(key);
  if (!list.is_array()) refuse(key, "a list of texts");
  for (const Json& value : list) {
    if (!value.is_string()) refuse(key, "a list of texts");
    texts.push_back(value.get<std::string>());
  }
  return texts;
}

std::string JsonObject::first_text(const std::string& key) const {
  if (!has(key)) return "";
  const Json& list = at(key);
  if (!list.is_array() || list.empty() || !list[0].is_string()) refuse(key, "a list of texts");
  return list[0].get<std::string>();
}

}  // namespace boxcar::backends::host
