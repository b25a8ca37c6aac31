#include "cli/arguments.h"

#include <fmt/format.h>

#include <algorithm>

#include "sbp/error.h"
#include "sbp/suggest.h"

namespace boxcar::cli {
namespace {

bool is_boolean(const std::string& text) {
  static const std::vector<std::string> words{"true", "false", "yes", "no", "on", "off", "1", "0"};
  return std::find(words.begin(), words.end(), text) != words.end();
}

std::vector<std::string> flag_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// "sbp ops"
std::string full_name(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  const bool nested = parent != nullptr && parent->get_parent() != nullptr;
  return (nested ? full_name(*parent) + " " : "") + command.get_name();
}

[[noreturn]] void refuse_flag(const CLI::App& command, const std::string& flag) {
  throw Error::input(flag, fmt::format("unknown flag{}; `boxcar {} --help` lists all",
                                       did_you_mean(flag, flag_names(command)), full_name(command)));
}

}  // namespace

void refuse_extras(const CLI::App& command) {
  for (const std::string& extra : command.remaining()) {
    if (extra.starts_with("-")) refuse_flag(command, extra.substr(0, extra.find('=')));
    throw Error::input(extra, "one argument too many");
  }
}

void JobArguments::add_to(CLI::App& command, bool run, const std::map<std::string, std::string>& defaults) {
  command_ = &command;
  command.allow_extras();
  command.footer(
      "Defaults are in brackets. JOB.yaml may be given first; flags override it. See docs/jobs.md.");
  for (const Key& key : keys()) {
    if (key.section == run_section && !run) continue;
    std::string names = key.alias.empty() ? key.flag : key.flag + "," + key.alias;
    std::string values = key.is_switch() ? fmt::format("[{}]", key.values()) : key.values();
    const auto otherwise = defaults.find(key.path());
    const std::string fallback = otherwise == defaults.end() ? key.default_text() : otherwise->second;
    CLI::Option* option = command.add_option(names)
                              ->description(fmt::format("{} [{}]", key.help, fallback))
                              ->type_name(values)
                              ->group(key.section);
    option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    if (key.is_switch()) option->expected(0, 1);
    flags_.push_back({&key, option});
  }
}

JobArguments::Parsed JobArguments::parse() const {
  std::vector<std::string> files;
  for (const std::string& extra : command_->remaining()) {
    if (extra.starts_with("-")) {
      refuse_flag(*command_, extra.substr(0, extra.find('=')));
    }
    files.push_back(extra);
  }
  GivenKeys flags;
  for (const Flag& flag : flags_) {
    if (flag.option->count() == 0) continue;
    std::vector<std::string> results = flag.option->results();
    std::string text = results.empty() ? "" : results.back();
    if (flag.key->is_switch() && !text.empty() && !is_boolean(text) && text.ends_with(".yaml")) {
      files.push_back(text);  // a switch before the job file has no value of its own
      text.clear();
    }
    if (text == "{}") text.clear();  // how CLI11 writes an option without its optional value
    if (text.empty() && !flag.key->is_switch()) throw Error::input(flag.key->flag, "needs a value");
    flags[flag.key->path()] = {text, flag.key->flag};
  }
  if (files.size() > 1)
    throw Error::input(files[1], fmt::format("one job file at a time; {} was given too", files[0]));
  return {std::move(flags), files.empty() ? "" : files[0]};
}

std::string JobArguments::file() const { return parse().file; }

GivenKeys JobArguments::given() const {
  const Parsed parsed = parse();
  GivenKeys given = parsed.file.empty() ? GivenKeys{} : read_job_file(parsed.file);
  for (const auto& [path, value] : parsed.flags) given[path] = value;
  return given;
}

}  // namespace boxcar::cli
