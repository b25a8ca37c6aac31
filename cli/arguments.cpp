#include "cli/arguments.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "backends/machines/cluster.h"
#include "backends/machines/named_constants.h"
#include "cli/flag_synonyms.h"
#include "ir/read_number.h"
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

// "--learning-rate" -> "--lr"
std::string initials(const std::string& flag) {
  std::string text = "--";
  for (size_t i = 2; i < flag.size(); ++i)
    if (i == 2 || flag[i - 1] == '-') text += flag[i];
  return text;
}

bool has_flag(const std::vector<std::string>& flags, const std::string& flag) {
  return std::find(flags.begin(), flags.end(), flag) != flags.end();
}

// The constant of a cluster whose name a flag has: "node.link_bandwidth" for --link-bandwidth,
// "bandwidth.network" for --network-bandwidth. Empty: there is none.
std::string constant_named(const std::string& flag) {
  std::string name = flag.substr(std::min<size_t>(2, flag.size()));
  std::replace(name.begin(), name.end(), '-', '_');
  for (const std::string& constant : backends::constant_names(backends::load_cluster("dgx-h100", 0)))
    if (constant.substr(constant.rfind('.') + 1) == name) return constant;  // npos + 1: from its beginning
  for (const std::string& shorter : backends::short_constant_names())
    if (const size_t dot = shorter.find('.'); dot != std::string::npos)
      if (shorter.substr(dot + 1) + "_" + shorter.substr(0, dot) == name)
        return shorter;  // network_bandwidth
  return "";
}

// Where a command takes the constant that a flag names. Empty: there is none.
std::string constant_meant(const std::string& flag, const std::vector<std::string>& known) {
  const std::string constant = has_flag(known, "--cluster") ? constant_named(flag) : "";
  if (constant.empty()) return "";
  return has_flag(known, "--what-if") ? fmt::format("--what-if {}=...", constant)
                                      : fmt::format("{} of a cluster file", constant);
}

// The commands that have this flag, "campaign and search have it"; empty: none, or too many to be useful.
std::string commands_with(const CLI::App& command, const std::string& flag) {
  const CLI::App* root = &command;
  while (root->get_parent()) root = root->get_parent();
  std::vector<std::string> names;
  for (const CLI::App* other : root->get_subcommands({})) {
    const std::vector<std::string> flags = flag_names(*other);
    if (std::find(flags.begin(), flags.end(), flag) != flags.end()) names.push_back(other->get_name());
  }
  constexpr size_t most = 4;
  if (names.empty() || names.size() > most) return "";
  const std::string last = names.back();
  names.pop_back();
  return names.empty() ? last + " has it" : fmt::format("{} and {} have it", fmt::join(names, ", "), last);
}

// Says that a flag belongs to the job of a saved plan, if the command reads one. Empty: it does not.
std::string kept_by_plan(const CLI::App& command, const std::vector<std::string>& known,
                         const std::string& flag) {
  const bool reads_plan = command.get_name() == "explain" || command.get_name() == "report" ||
                          command.get_name() == "export" || command.get_name() == "diff";
  const std::string_view meant = flag_meant(flag);
  const std::string name =
      meant.empty() ? spelled_here(flag) : std::string(meant.substr(0, meant.find_first_of(" ,")));
  const bool is_key = std::any_of(keys().begin(), keys().end(), [&](const Key& key) {
    return key.section != run_section && (key.flag == name || (!key.alias.empty() && key.alias == name));
  });
  if (!reads_plan || !is_key || has_flag(known, name)) return "";
  if (has_flag(known, "--why-not"))
    return fmt::format("the plan's job says it; --why-not \"{} ...\" places the plan with another", name);
  return "the plan's job says it; plan anew with `boxcar simulate` or `boxcar search` for another";
}

[[noreturn]] void refuse_flag(const CLI::App& command, const std::string& flag, const std::string& value) {
  const std::vector<std::string> known = flag_names(command);
  const auto same = std::find_if(known.begin(), known.end(), [&](const std::string& name) {
    return name.find('-', 2) != std::string::npos && initials(name) == flag;
  });
  const std::string_view elsewhere = flag_meant(flag, value);
  const bool here = std::find(known.begin(), known.end(),
                              elsewhere.substr(0, elsewhere.find_first_of(" ,"))) != known.end();
  const bool spelled = std::find(known.begin(), known.end(), spelled_here(flag)) != known.end();
  const std::string constant = constant_meant(flag, known), others = commands_with(command, flag),
                    kept = kept_by_plan(command, known, flag);
  const std::string_view advice = advice_in_place_of(command.get_name(), flag);
  const std::string meant = !advice.empty()       ? fmt::format(" ({})", advice)
                            : !kept.empty()       ? fmt::format(" ({})", kept)
                            : spelled             ? fmt::format(" (did you mean {}?)", spelled_here(flag))
                            : here                ? fmt::format(" (did you mean {}?)", elsewhere)
                            : same != known.end() ? fmt::format(" (did you mean {}?)", *same)
                            : !constant.empty()   ? fmt::format(" (did you mean {}?)", constant)
                            : !others.empty()     ? fmt::format(" ({})", others)
                                                  : did_you_mean(flag, known);
  const std::string name = command.get_name().empty() ? "" : " " + full_name(command);
  throw Error::input(flag, fmt::format("unknown flag{}; `boxcar{} --help` lists all", meant, name));
}

// Refuses the argument at `at` of a command's unknown ones, "--gpu=8" or "--gpu" before "8", if it is a flag.
void refuse_if_flag(const CLI::App& command, const std::vector<std::string>& extras, size_t at) {
  const std::string& extra = extras[at];
  if (!extra.starts_with("-")) return;
  const size_t equals = extra.find('=');
  const std::string behind = at + 1 < extras.size() ? extras[at + 1] : "";
  refuse_flag(command, extra.substr(0, equals),
              equals == std::string::npos ? behind : extra.substr(equals + 1));
}

// A validator's message follows the option's name, which CLI11 puts first: "--steps: ".
CLI::Validator validator(std::function<std::string(std::string&)> check) {
  return CLI::Validator(std::move(check), "", "");
}

// --model and --family are one flag: a family after a named model would remove that model's sizes.
void check_one_model(const std::vector<std::string>& given) {
  const std::vector<std::string>& families = find_key("model", "family")->words;
  const auto is_family = [&](const std::string& text) {
    return std::find(families.begin(), families.end(), text) != families.end();
  };
  if (given.empty() || !is_family(given.back())) return;
  for (const std::string& other : given)
    if (!is_family(other))
      throw Error::input("--model", fmt::format("got \"{}\" and then \"{}\", which has no sizes of its own; "
                                                "--family is another name of --model: give one of them",
                                                other, given.back()));
}

}  // namespace

std::vector<std::string> with_constants_named(const CLI::App& app, std::vector<std::string> words) {
  std::vector<std::string> known;
  for (const CLI::App* command : app.get_subcommands({}))
    if (!words.empty() && command->get_name() == words.front()) known = flag_names(*command);
  if (!has_flag(known, "--what-if")) return words;
  std::vector<std::string> result;
  for (size_t i = 0; i < words.size(); ++i) {
    const size_t equals = words[i].find('=');
    const std::string flag = words[i].substr(0, equals);
    const bool is_unknown = flag.starts_with("--") && !has_flag(known, flag) && flag_meant(flag).empty();
    const auto is_value = [](const std::string& word) {
      const bool is_negative =
          word.size() > 1 && word[0] == '-' && std::isdigit(static_cast<unsigned char>(word[1]));
      return !word.starts_with("-") || is_negative;
    };
    const bool has_value = equals != std::string::npos || (i + 1 < words.size() && is_value(words[i + 1]));
    const std::string constant = is_unknown && has_value ? constant_named(flag) : "";
    if (constant.empty()) {
      result.push_back(words[i]);
      continue;
    }
    result.push_back("--what-if");
    result.push_back(constant + "=" +
                     (equals != std::string::npos ? words[i].substr(equals + 1) : words[++i]));
  }
  return result;
}

CLI::Validator whole_number(int64_t least, int64_t most) {
  return validator([=](std::string& text) {
    const auto value = ir::read_number<int64_t>(text);
    if (value && *value >= least && *value <= most) return std::string();
    return fmt::format("got \"{}\", expected a whole number from {} to {}", text, least, most);
  });
}

CLI::Validator number(double least, double most) {
  return validator([=](std::string& text) {
    const auto value = ir::read_number<double>(text);
    if (value && *value >= least && *value <= most) return std::string();
    return fmt::format("got \"{}\", expected a number from {:g} to {:g}", text, least, most);
  });
}

CLI::Validator not_empty() {
  return validator([](std::string& text) { return std::string(text.empty() ? "needs a value" : ""); });
}

void refuse_extras(const CLI::App& command) {
  const std::vector<std::string> extras = command.remaining();
  if (extras.empty()) return;
  refuse_if_flag(command, extras, 0);
  throw Error::input(extras.front(), "one argument too many");
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
  const std::vector<std::string> extras = command_->remaining();
  for (size_t i = 0; i < extras.size(); ++i) {
    const std::string& extra = extras[i];
    refuse_if_flag(*command_, extras, i);
    if (is_boolean(extra))
      throw Error::input(extra,
                         "is no job file; a flag such as --json stands alone, or is given as --json=false");
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
    if ((text.empty() || text.starts_with("--")) && !flag.key->is_switch())
      throw Error::input(flag.key->flag, "needs a value");
    if (flag.key->path() == "model.family") check_one_model(results);
    flags[flag.key->path()] = {text, flag.key->flag};
  }
  return {std::move(flags), std::move(files)};
}

std::vector<std::string> JobArguments::files() const { return parse().files; }

std::string JobArguments::file() const {
  const std::vector<std::string> files = parse().files;
  if (files.size() > 1)
    throw Error::input(files[1], fmt::format("one job file at a time; {} was given too", files[0]));
  return files.empty() ? "" : files[0];
}

GivenKeys JobArguments::given(const std::string& file) const {
  GivenKeys given = file.empty() ? GivenKeys{} : read_job_file(file);
  for (const auto& [path, value] : parse().flags) given[path] = value;
  return given;
}

GivenKeys JobArguments::given() const { return given(file()); }

}  // namespace boxcar::cli
