// Why a plan is as it is, in words and tables for people.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "backends/cluster.h"
#include "cli/report.h"
#include "planner/laid_out.h"

namespace boxcar::cli {

// Labels of a plan that a search found: "20.18 s, 2.2 % slower: --dp 16 ...".
inline constexpr const char* runner_up = "search.runner_up.";

// Stages, and the communications that take most time, with who makes and who reads what they move.
std::string explain_plan(const ir::Plan& plan, const backends::Cluster& cluster, const Report& report);

// The step by the time models, in s, with these signatures of the op, by mesh dimension, and the best layouts
// of all others; infinite where there are none.
using StepWith = std::function<double(const std::vector<sbp::Signature>& signatures)>;

// The legal signatures of an op on every dimension of its mesh with what each would cost here, boxing of what
// it reads and writes included, the other dimensions as they are; and with `step`, which may be null, by how
// much the step would grow. Throws Error (bad input) with the nearest name.
std::string explain_op(const planner::LaidOut& laid, const backends::Cluster& cluster,
                       const std::string& name, const StepWith& step = nullptr);

// Which device of a stage holds which block of a tensor. Throws as explain_op.
std::string explain_tensor(const planner::LaidOut& laid, const std::string& name);

}  // namespace boxcar::cli
