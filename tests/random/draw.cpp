#include "draw.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "ir/models/conv_net.h"
#include "sbp/error.h"

namespace boxcar::tests {
namespace {

constexpr int most_mends = 80;     // per job
constexpr int most_alike = 20;     // consecutive refusals with the same message
constexpr int most_tries = 6;      // jobs tried for a pair before it counts as illegal
constexpr double otherwise = 0.3;  // share of dimensions not at their first value

const std::string& text_of(const Setting& setting) {
  return at(at(dimensions(), setting.dimension).values, setting.value);
}

int devices_of(const RandomJob& job) {
  int devices = 1;
  for (const char* path : {"parallel.dp", "parallel.tp", "parallel.pp", "parallel.context_parallel"})
    devices *= std::stoi(job.value(path));
  return devices;
}

// Whether `name` occurs in the text as a whole word.
bool mentions(const std::string& text, const std::string& name) {
  const auto part = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
    const size_t end = at + name.size();
    if ((at == 0 || !part(text[at - 1])) && (end == text.size() || !part(text[end]))) return true;
  }
  return false;
}

// Drops values that are a dimension's first, which the kept pair may have named.
RandomJob plain(const RandomJob& job) {
  RandomJob result;
  for (const auto& [path, value] : job.values) result = result.with(path, value);
  return result;
}

std::string name_of(const std::string& path) { return path.substr(path.find('.') + 1); }

// Dependencies beyond those that a job file's keys state.
struct Needs {
  const char *path, *value;  // this value (null: any but the first)
  const char *other, *of;    // needs the other key to have this one (null: any but the first)
};
constexpr Needs needs[] = {
    {"run.validation_fraction", nullptr, "run.validate_every", nullptr},
    {"run.validation_batches", nullptr, "run.validate_every", nullptr},
    {"run.min_learning_rate", nullptr, "run.lr_schedule", "cosine"},
    {"run.document_end", nullptr, "model.document_length", nullptr},
    {layouts_dimension, "found", "parallel.servers", "0"},
    {layouts_dimension, "random", "parallel.servers", "0"},
    // Random layouts need a graph on one stage whose states are unsharded and whose ops may be split
    // anywhere.
    {layouts_dimension, "random", "parallel.pp", "1"},
    {layouts_dimension, "random", "parallel.ep", "1"},
    {layouts_dimension, "random", "parallel.zero", "0"},
    {layouts_dimension, "random", "train.epilogues", "false"},
    {layouts_dimension, "random", "train.fused_loss", "false"},
    {layouts_dimension, "random", "train.sparse_tables", "false"},
};

std::optional<Refusal> need_of(const RandomJob& job) {
  const auto is = [&](const char* path, const char* value) {
    return value ? job.value(path) == value : job.values.contains(path);
  };
  for (const Needs& row : needs)
    if (is(row.path, row.value) && !is(row.other, row.of))
      return Refusal{row.path, fmt::format("needs {}", name_of(row.other))};
  if (job.value(layouts_dimension) == "random" && devices_of(job) == 1)
    return Refusal{layouts_dimension, "needs several devices: dp tp context_parallel"};
  return std::nullopt;
}

}  // namespace

std::string to_text(const Pair& pair) {
  const auto one = [](const Setting& s) { return at(dimensions(), s.dimension).path + "=" + text_of(s); };
  return one(pair.first) + " " + one(pair.second);
}

Coverage::Coverage() {
  for (const Dimension& d : dimensions()) {
    first_.push_back(values_);
    values_ += static_cast<int>(d.values.size());
  }
  seen_.resize(static_cast<size_t>(values_) * static_cast<size_t>(values_));
  const int count = static_cast<int>(dimensions().size());
  const auto values_of = [](int d) { return static_cast<int>(at(dimensions(), d).values.size()); };
  for (int a = 0; a < count; ++a)
    for (int b = a + 1; b < count; ++b)
      for (int x = 0; x < values_of(a); ++x)
        for (int y = 0; y < values_of(b); ++y) all_.push_back({{a, x}, {b, y}});
}

size_t Coverage::index(const Pair& pair) const {
  const auto number = [&](const Setting& s) { return at(first_, s.dimension) + s.value; };
  return static_cast<size_t>(number(pair.first)) * static_cast<size_t>(values_) +
         static_cast<size_t>(number(pair.second));
}

bool Coverage::has(const Pair& pair) const { return seen_[index(pair)]; }

void Coverage::add(const RandomJob& job) {
  std::vector<Setting> settings;
  for (size_t d = 0; d < dimensions().size(); ++d) {
    const Dimension& dim = dimensions()[d];
    const auto at = std::find(dim.values.begin(), dim.values.end(), job.value(dim.path));
    settings.push_back({static_cast<int>(d), static_cast<int>(at - dim.values.begin())});
  }
  for (size_t a = 0; a < settings.size(); ++a)
    for (size_t b = a + 1; b < settings.size(); ++b) {
      const size_t at = index({settings[a], settings[b]});
      if (!seen_[at]) ++covered_;
      seen_[at] = true;
    }
}

std::optional<Refusal> refusal(const RandomJob& job) {
  if (devices_of(job) > most_devices) return Refusal{"", "too many devices: dp tp pp context_parallel"};
  if (auto why = need_of(job)) return why;
  const std::string& family = job.value("model.family");
  for (const auto& [path, value] : job.values)
    if (path.starts_with("model.") && !cli::find_key("model", name_of(path))->is_of(family))
      return Refusal{path, "is not of family " + family};
  try {
    cli::resolve(given_of(job));
    return std::nullopt;
  } catch (const Error& error) {
    if (error.code() != Exit::bad_input) throw;
    return Refusal{error.where(), error.what()};
  }
}

size_t Drawer::below(size_t limit) { return std::uniform_int_distribution<size_t>(0, limit - 1)(random_); }

RandomJob Drawer::scatter(const RandomJob& kept) {
  RandomJob job;
  for (const Dimension& d : dimensions())
    if (std::uniform_real_distribution(0.0, 1.0)(random_) < otherwise)
      job = job.with(d.path, d.values[below(d.values.size())]);
  for (const auto& [path, value] : kept.values) job = job.with(path, value);
  return job;
}

// Redraws or leaves out the values that the refusal names: the key at fault or one in its message.
void Drawer::mend(RandomJob& job, const RandomJob& kept, const Refusal& why) {
  std::vector<const Dimension*> named;
  for (const Dimension& d : dimensions()) {
    if (kept.values.contains(d.path)) continue;
    std::string flag = "--" + name_of(d.path);
    std::replace(flag.begin(), flag.end(), '_', '-');
    if (why.where == d.path || mentions(why.where, flag) || mentions(why.message, name_of(d.path)))
      named.push_back(&d);
  }
  if (named.empty())
    for (const Dimension& d : dimensions())
      if (!kept.values.contains(d.path) && job.values.contains(d.path)) named.push_back(&d);
  if (named.empty()) return;
  const Dimension& d = *named[below(named.size())];
  job = job.with(d.path, d.values[below(2) == 0 ? 0 : below(d.values.size())]);
}

std::optional<RandomJob> Drawer::draw(const Pair& pair) {
  // Keeps first values too: they are named, though `values` does not hold them.
  RandomJob kept;
  for (const Setting& s : {pair.first, pair.second})
    kept.values[at(dimensions(), s.dimension).path] = text_of(s);
  RandomJob job = scatter(kept);
  int same = 0;
  for (int i = 0; i < most_mends && same < most_alike; ++i) {
    const std::optional<Refusal> why = refusal(job);
    if (!why) return plain(job);
    std::string& message = failed_[pair];
    same = why->message == message ? same + 1 : 0;
    message = why->message;
    mend(job, kept, *why);
  }
  return std::nullopt;
}

std::optional<RandomJob> Drawer::draw(const Coverage& coverage) {
  std::vector<const Pair*> open;
  for (const Pair& pair : coverage.all())
    if (!coverage.has(pair) && tries_[pair] < most_tries) open.push_back(&pair);
  const Pair pair = open.empty() ? coverage.all()[below(coverage.pairs())] : *open[below(open.size())];
  auto job = draw(pair);
  if (job)
    failed_.erase(pair);
  else
    ++tries_[pair];
  return job;
}

}  // namespace boxcar::tests
