#include "cli/campaign_steps.h"

#include <fmt/format.h>

#include <cmath>

#include "cli/quantities.h"
#include "sbp/error.h"

namespace boxcar::cli {
namespace {

constexpr double most_steps = 1e12;

}  // namespace

double amount_per_step(const ir::Plan& plan, const std::string& name, const std::string& unit) {
  const auto fact = plan.facts.find(unit);
  if (fact != plan.facts.end() && fact->second > 0) return fact->second;
  throw Error::input("--" + unit,
                     fmt::format("a step of {} has none{}", name,
                                 unit == "tokens" ? "; give --samples" : " that its plan tells of"));
}

int64_t steps_for(double amount, double per_step, const std::string& unit) {
  if (amount < per_step)
    throw Error::input("--" + unit, fmt::format("{} is less than one step, which takes {}",
                                                number_text(amount), number_text(per_step)));
  const double steps = std::ceil(amount / per_step);
  if (steps <= most_steps) return static_cast<int64_t>(steps);
  throw Error::input("--" + unit,
                     fmt::format("{} are {} steps, more than {} (use a larger global_batch)",
                                 number_text(amount), number_text(steps), number_text(most_steps)));
}

}  // namespace boxcar::cli
