#include "cli/completions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <sstream>
#include <utility>
#include <vector>

#include "backends/machines/cluster.h"
#include "backends/machines/device_profile.h"
#include "backends/machines/framework.h"
#include "cli/catalog.h"
#include "cli/export/export.h"
#include "cli/output.h"
#include "cli/search_limits.h"
#include "sbp/error.h"

namespace boxcar::cli {
namespace {

using Words = std::vector<std::string>;

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

std::string quoted(const std::string& text) { return "'" + replaced(text, "'", "'\\''") + "'"; }

// The name under which `option` is completed; empty for an operand.
std::string name_of(const CLI::Option& option) {
  const std::vector<std::string>& names = option.get_lnames();
  return names.empty() ? "" : "--" + names.front();
}

// About the first sentence of a description, without its default in brackets.
std::string brief(const std::string& description) {
  return description.substr(0, std::min(description.find(" ["), description.find('\n')));
}

Words export_names() {
  Words names;
  for (const exports::Framework& framework : exports::frameworks()) names.push_back(framework.name);
  return names;
}

// Flags whose values are names, beside those whose type lists them.
struct ValueNames {
  const char* flag;
  Words (*words)();
};
constexpr ValueNames value_names[] = {
    {"--cluster", backends::cluster_presets},
    {"--device", backends::device_presets},
    {"--stack", backends::framework_names},
    {"--max-stack", frameworks_with_runs},
    {"--to", export_names},
    {"--pareto",
     [] {
       return Words{"time,memory", "time,cost", "memory,cost", "time,memory,cost"};
     }},
};

// The words that an option's value may be; none if it is a number, a name or a file.
Words words_of(const CLI::Option& option) {
  const std::string name = name_of(option);
  for (const ValueNames& one : value_names)
    if (name == one.flag) return one.words();
  Words words;
  std::istringstream values(replaced(replaced(option.get_type_name(), "[", ""), "]", ""));
  for (std::string word; std::getline(values, word, '|');) words.push_back(word);
  const bool plain = std::all_of(words.begin(), words.end(), [](const std::string& word) {
    return !word.empty() && word.find_first_of(" .,=\"") == std::string::npos;
  });
  if (words.size() < 2 || !plain) return {};
  if (name == "--model")
    for (const CatalogModel& model : catalog()) words.push_back(model.name);
  return words;
}

std::vector<const CLI::Option*> flags_of(const CLI::App& command) {
  std::vector<const CLI::Option*> flags;
  for (const CLI::Option* option : command.get_options())
    if (!name_of(*option).empty()) flags.push_back(option);
  return flags;
}

// The flags of a command and of those below it, each once.
std::vector<const CLI::Option*> completed_flags(const CLI::App& command) {
  std::vector<const CLI::Option*> flags = flags_of(command);
  for (const CLI::App* below : command.get_subcommands({}))
    for (const CLI::Option* flag : flags_of(*below))
      if (std::none_of(flags.begin(), flags.end(),
                       [&](const CLI::Option* other) { return name_of(*other) == name_of(*flag); }))
        flags.push_back(flag);
  return flags;
}

Words names_of(const std::vector<const CLI::App*>& commands) {
  Words names;
  for (const CLI::App* command : commands) names.push_back(command->get_name());
  return names;
}

// The words that may follow a command: those below it, or the values of its first operand.
Words first_words(const CLI::App& command) {
  if (Words names = names_of(command.get_subcommands({})); !names.empty()) return names;
  for (const CLI::Option* option : command.get_options()) {
    if (!option->get_positional()) continue;
    if (option->get_type_name() == "COMMAND") return names_of(command.get_parent()->get_subcommands({}));
    Words words = words_of(*option);
    const bool files = std::any_of(words.begin(), words.end(), [](const std::string& word) {
      return std::isupper(static_cast<unsigned char>(word.front()));  // PLAN|RUNS
    });
    return files ? Words{} : words;
  }
  return {};
}

bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

std::string bash_script(const std::vector<const CLI::App*>& commands) {
  std::string values, flags;
  for (const CLI::App* command : commands) {
    if (const Words words = first_words(*command); !words.empty())
      values += fmt::format("    '{0} {0}') words={1} ;;\n", command->get_name(),
                            quoted(fmt::format("{}", fmt::join(words, " "))));
    Words own;
    for (const CLI::Option* flag : completed_flags(*command)) {
      own.push_back(name_of(*flag));
      if (const Words words = words_of(*flag); !words.empty())
        values += fmt::format("    '{} {}') words={} ;;\n", command->get_name(), name_of(*flag),
                              quoted(fmt::format("{}", fmt::join(words, " "))));
    }
    flags += fmt::format("    {}) words={} ;;\n", command->get_name(),
                         quoted(fmt::format("{}", fmt::join(own, " "))));
  }
  return fmt::format(R"(_boxcar() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} words=''
  if (( COMP_CWORD == 1 )); then
    COMPREPLY=($(compgen -W '{}' -- "$current"))
    return
  fi
  case "${{COMP_WORDS[1]}} $previous" in
{}  esac
  if [[ -z $words && $current == -* ]]; then
    case ${{COMP_WORDS[1]}} in
{}    esac
  fi
  if [[ -n $words ]]; then
    COMPREPLY=($(compgen -W "$words" -- "$current"))
  else
    COMPREPLY=($(compgen -f -- "$current"))
  fi
}}
complete -o filenames -F _boxcar boxcar
)",
                     fmt::join(names_of(commands), " "), values, flags);
}

std::string zsh_script(const std::vector<const CLI::App*>& commands) {
  const auto escaped = [](const std::string& text) {
    return replaced(replaced(replaced(text, "[", "\\["), "]", "\\]"), ":", "\\:");
  };
  std::string names, cases;
  for (const CLI::App* command : commands) {
    names += fmt::format("    {}\n", quoted(command->get_name() + ":" + escaped(command->get_description())));
    cases += fmt::format("    {})\n      _arguments \\\n", command->get_name());
    for (const CLI::Option* flag : completed_flags(*command)) {
      const Words words = words_of(*flag);
      const std::string value = !takes_value(*flag) ? ""
                                : words.empty()     ? ":value:_files"
                                                    : fmt::format(":value:({})", fmt::join(words, " "));
      cases += fmt::format(
          "        {} \\\n",
          quoted(fmt::format("{}[{}]{}", name_of(*flag), escaped(brief(flag->get_description())), value)));
    }
    if (const Words words = first_words(*command); !words.empty())
      cases += fmt::format("        '1:word:({})' \\\n", fmt::join(words, " "));
    cases += "        '*:file:_files' ;;\n";
  }
  return fmt::format(R"(#compdef boxcar
_boxcar() {{
  local -a commands=(
{}  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  local command=$words[2]
  shift words
  (( CURRENT-- ))
  case $command in
{}  esac
}}
compdef _boxcar boxcar
)",
                     names, cases);
}

std::string fish_script(const std::vector<const CLI::App*>& commands) {
  std::string text;
  for (const CLI::App* command : commands) {
    text += fmt::format("complete -c boxcar -n __fish_use_subcommand -f -a {} -d {}\n", command->get_name(),
                        quoted(command->get_description()));
    if (const Words words = first_words(*command); !words.empty())
      text += fmt::format("complete -c boxcar -n '__fish_seen_subcommand_from {}' -f -a {}\n",
                          command->get_name(), quoted(fmt::format("{}", fmt::join(words, " "))));
    for (const CLI::Option* flag : completed_flags(*command)) {
      const Words words = words_of(*flag);
      text += fmt::format("complete -c boxcar -n '__fish_seen_subcommand_from {}' -l {}{} -d {}\n",
                          command->get_name(), name_of(*flag).substr(2),
                          !takes_value(*flag) ? ""
                          : words.empty()
                              ? " -r"
                              : fmt::format(" -x -a {}", quoted(fmt::format("{}", fmt::join(words, " ")))),
                          quoted(brief(flag->get_description())));
    }
  }
  return text;
}

// Text for a manual page: no dash becomes a hyphen, and no line begins with a macro.
std::string roff(const std::string& text) {
  std::string escaped = replaced(replaced(text, "\\", "\\e"), "-", "\\-");
  if (escaped.starts_with('.') || escaped.starts_with('\'')) escaped = "\\&" + escaped;
  return replaced(escaped, "\n.", "\n\\&.");
}

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

}  // namespace

std::string completion_script(const CLI::App& app, const std::string& shell) {
  const std::vector<const CLI::App*> commands = app.get_subcommands({});
  if (shell == "bash") return bash_script(commands);
  if (shell == "zsh") return zsh_script(commands);
  if (shell == "fish") return fish_script(commands);
  throw Error::input(shell, "there are completions for bash, zsh and fish");
}

namespace {

// "[JOB.yaml] [flags]", "PLAN [flags]", "COMMAND ..."
std::string operands_of(const CLI::App& app) {
  if (!app.get_subcommands({}).empty()) return "\\fICOMMAND\\fR ...";
  Words operands;
  if (app.get_footer().find("JOB.yaml may be given first") != std::string::npos)
    operands.emplace_back("[\\fIJOB.yaml\\fR]");
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_positional()) continue;
    const std::string name =
        "\\fI" + roff(option->get_type_name().empty() ? option->get_name(true) : option->get_type_name()) +
        "\\fR";
    operands.push_back(option->get_required() ? name : "[" + name + "]");
  }
  if (flags_of(app).size() > 1) operands.emplace_back("[\\fIflags\\fR]");  // more than --help
  return fmt::format("{}", fmt::join(operands, " "));
}

}  // namespace

std::string manual_page(const CLI::App& app) {
  const CLI::App* parent = app.get_parent();
  const std::string name = parent ? parent->get_name() + "-" + app.get_name() : app.get_name();
  const std::string what = replaced(app.get_description(), "boxcar: ", "");
  std::string text = fmt::format(
      ".TH {} 1 \"\" \"boxcar\" \"Boxcar\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n.B {}\n{}\n",
      upper(roff(name)), roff(name), roff(what), roff(replaced(name, "-", " ")), operands_of(app));
  const auto add = [&](const std::string& head, const std::string& body) {
    text += fmt::format(".TP\n{}\n{}\n", head, roff(body));
  };
  if (const std::vector<const CLI::App*> commands = app.get_subcommands({}); !commands.empty()) {
    text += ".SH COMMANDS\n";
    for (const CLI::App* command : commands)
      add(fmt::format(".B {}", roff(command->get_name())), command->get_description());
  }
  std::string group;
  for (const CLI::Option* flag : flags_of(app)) {
    if (flag->get_group() != group) {
      group = flag->get_group();
      text += fmt::format(".SH {}\n", upper(roff(group)));
    }
    Words names;
    for (const std::string& other : flag->get_lnames()) names.push_back("--" + other);
    for (const std::string& other : flag->get_snames()) names.push_back("-" + other);
    add(fmt::format("\\fB{}\\fR{}", roff(fmt::format("{}", fmt::join(names, ", "))),
                    flag->get_type_name().empty() ? "" : " \\fI" + roff(flag->get_type_name()) + "\\fR"),
        flag->get_description());
  }
  if (!app.get_footer().empty()) text += fmt::format(".SH NOTES\n{}\n", roff(app.get_footer()));
  return text;
}

void add_completion_commands(CLI::App& app) {
  const auto shell = std::make_shared<std::string>(), page = std::make_shared<std::string>();
  CLI::App* completions = app.add_subcommand("completions", "print completions for a shell");
  completions->add_option("shell", *shell, "bash, zsh or fish")->required()->type_name("bash|zsh|fish");
  completions->callback([&app, shell] { print(completion_script(app, *shell)); });
  CLI::App* man = app.add_subcommand("man", "print the manual page of a command, for man -l -");
  man->add_option("command", *page, "a command; without one, the page of boxcar")->type_name("COMMAND");
  man->callback([&app, page] {
    if (page->empty()) return print(manual_page(app));
    for (const CLI::App* command : app.get_subcommands({}))
      if (command->get_name() == *page) return print(manual_page(*command));
    throw Error::input(*page, "no such command; `boxcar --help` lists them");
  });
}

}  // namespace boxcar::cli
