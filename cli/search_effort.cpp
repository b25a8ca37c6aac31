#include "cli/search_effort.h"

#include <fmt/format.h>

#include <optional>

#include "cli/quantities.h"
#include "ir/read_number.h"
#include "sbp/error.h"

namespace boxcar::cli {
namespace {

constexpr int quick_plans = 4, most_plans = 1'000'000;

int plans_of(const std::string& text) {
  const int plans = ir::read_number<int>(text).value_or(0);
  if (plans < 1 || plans > most_plans)
    throw Error::input("--effort",
                       fmt::format("got \"{}\", expected quick, normal, thorough or a number of plans from 1 "
                                   "to {}",
                                   text, most_plans));
  return plans;
}

double share_of(const std::string& text) {
  const std::optional<double> share = read_share(text);
  if (!share || !(*share >= 0 && *share < 1))
    throw Error::input("--gap", fmt::format("got \"{}\", expected a share such as 2% or 0.02", text));
  return *share;
}

}  // namespace

void set_effort(const Effort& effort, search::SearchOptions& options) {
  if (!effort.gap.empty())
    options.gap = share_of(effort.gap);
  else if (effort.prove)
    options.gap = 0;
  const char* const flag = effort.gap.empty() ? "--prove" : "--gap";
  if (options.gap && options.goal == search::Goal::memory)
    throw Error::input(flag, "needs --objective time or cost; no bound on the least memory is known");
  if (options.gap && effort.effort == "quick")
    throw Error::input(
        flag, fmt::format("cannot be given with --effort quick, which ends after {} plans", quick_plans));
  if (effort.effort == "normal") return;
  if (effort.effort == "quick") {
    options.plans = quick_plans;
    return;
  }
  if (effort.effort != "thorough") options.plans = plans_of(effort.effort);
  if (!options.gap) options.gap = 0;
}

}  // namespace boxcar::cli
