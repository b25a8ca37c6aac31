#include "planner/uses.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <queue>
#include <tuple>

#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::planner {
namespace {

constexpr int no_token = std::numeric_limits<int>::max();

std::vector<std::tuple<int, int, int>> sorted_edges(const MarkedGraph& graph) {
  std::vector<std::tuple<int, int, int>> edges;
  for (const MarkedGraph::Edge& e : graph.edges) edges.emplace_back(e.from, e.to, e.tokens);
  std::sort(edges.begin(), edges.end());
  return edges;
}

bool updated_in_place(const ir::Program& program, int reg) {
  const int producer = at(program.registers, reg).producer;
  const auto& inputs = at(program.actors, producer).inputs;
  return std::any_of(inputs.begin(), inputs.end(),
                     [&](const ir::Input& in) { return in.program < 0 && in.reg == reg; });
}

constexpr int64_t most_acts = int64_t{1} << 22;   // of a step on all devices
constexpr int64_t most_pairs = int64_t{1} << 22;  // of compared slots, for two registers

const ir::Plan& expect_few(const ir::Plan& plan) {
  const int64_t acts = ir::size_of(plan).acts_per_step;
  if (acts <= most_acts) return plan;
  throw Error::cannot_run(
      plan.name,
      fmt::format("the order of its queues alone does not keep its registers apart, and {} acts on "
                  "all devices are too many to look at each (at most {})",
                  acts, most_acts));
}

}  // namespace

Uses::Uses(const ir::Plan& plan) : plan_(expect_few(plan)), view_(view_of_devices(plan)) {
  const StepGraph all = step_graph(view_), without_issues = step_graph(view_of_devices(plan, false));
  first_act_ = all.first_act;
  next_.resize(2 * all.graph.seconds.size());
  for (size_t start = 0; start < next_.size(); start += 2)
    next_[start].push_back({static_cast<int>(start) + 1, 0});
  const auto ordered = sorted_edges(without_issues.graph);
  for (const auto& edge : sorted_edges(all.graph)) {
    const auto [from, to, tokens] = edge;
    // A collective is issued when the previous one has started; other acts wait for the end.
    const bool issue = !std::binary_search(ordered.begin(), ordered.end(), edge);
    at(next_, 2 * from + (issue ? 0 : 1)).push_back({2 * to, tokens});
  }
}

Uses::Act Uses::act(int node, int64_t index) const {
  const StepNode& n = at(view_.nodes, node);
  const auto steps = static_cast<int>(index / n.acts);
  return {at(first_act_, n.unit) + static_cast<int>(index % n.acts), steps};
}

Uses::Use Uses::use(int device, int r, int version) const {
  const ir::Program& program = view_.program_of(device);
  const ir::Register& reg = at(program.registers, r);
  const int producer = at(view_.first_node, device) + reg.producer;
  const int64_t first = int64_t{version} * reg.every;
  Use use{act(producer, first), {act(producer, first + reg.every - 1)}};
  const auto read_by = [&](int node, int repeat) {
    use.ends.push_back(act(node, int64_t{version + reg.initial + 1} * repeat - 1));
  };
  for (int n = 0; n < static_cast<int>(view_.nodes.size()); ++n) {
    const StepNode& node = at(view_.nodes, n);
    for (const ir::Input& in : view_.actor_of(n).inputs) {
      if (in.reg != r || n == producer) continue;
      const bool local = in.program < 0;
      const int source = local ? node.instance : at(at(plan_.peers, in.peers).source, node.instance);
      if (source == device && (local || in.program == at(view_.program, device))) read_by(n, in.repeat);
    }
  }
  return use;
}

// The fewest tokens on a path from the end of an act, to each act's start.
const std::vector<int>& Uses::tokens_from(int node) {
  auto [found, added] = tokens_.try_emplace(node);
  if (!added) return found->second;
  std::vector<int>& tokens = found->second;
  tokens.assign(next_.size(), no_token);
  using Reached = std::pair<int, int>;  // tokens, place
  std::priority_queue<Reached, std::vector<Reached>, std::greater<>> open;
  open.push({at(tokens, 2 * node + 1) = 0, 2 * node + 1});
  while (!open.empty()) {
    const auto [so_far, place] = open.top();
    open.pop();
    if (so_far > at(tokens, place)) continue;
    for (const Edge& edge : at(next_, place)) {
      int& best = at(tokens, edge.to);
      if (so_far + edge.tokens < best) open.push({best = so_far + edge.tokens, edge.to});
    }
  }
  return tokens;
}

int Uses::behind(const Use& first, const Use& second) {
  int steps = 0;
  for (const Act& end : first.ends) {
    const int tokens = at(tokens_from(end.node), 2 * second.start.node);
    if (tokens == no_token) return no_token;
    steps = std::max(steps, tokens + end.step);
  }
  return steps;
}

bool Uses::before(const Act& first, const Act& second) {
  const int tokens = at(tokens_from(first.node), 2 * second.node);
  return tokens != no_token && tokens <= second.step - first.step;
}

bool Uses::ordered(int program, int r, int actor, int reader_program, int reader) {
  const ir::Register& reg = at(at(plan_.programs, program).registers, r);
  const auto input = [&](int p, int a) {
    const auto& inputs = at(at(plan_.programs, p).actors, a).inputs;
    return std::find_if(inputs.begin(), inputs.end(), [&](const ir::Input& in) {
      return in.reg == r && (in.program < 0 ? p : in.program) == program;
    });
  };
  const auto own = input(program, actor), others = input(reader_program, reader);
  const int64_t versions = at(plan_.programs, program).acts_per_step(reg.producer) / reg.every;
  for (int d = 0; d < plan_.devices; ++d) {
    if (at(view_.program, d) != reader_program) continue;
    const int source = others->program < 0 ? d : at(at(plan_.peers, others->peers).source, d);
    const int mine = at(view_.first_node, source) + actor, theirs = at(view_.first_node, d) + reader;
    for (int64_t v = reg.initial; v < reg.initial + versions; ++v) {
      const auto first = [&](int node, int64_t repeat) { return act(node, v * repeat); };
      const auto last = [&](int node, int64_t repeat) { return act(node, (v + 1) * repeat - 1); };
      if (!before(last(theirs, others->repeat), first(mine, own->repeat)) &&
          !before(last(mine, own->repeat), first(theirs, others->repeat)))
        return false;
    }
  }
  return true;
}

bool Uses::apart(int program, int r, int other) {
  const ir::Program& p = at(plan_.programs, program);
  if (updated_in_place(p, r) || updated_in_place(p, other)) return false;
  const ir::Register &a = at(p.registers, r), &b = at(p.registers, other);
  const auto versions = [&](const ir::Register& reg) { return p.acts_per_step(reg.producer) / reg.every; };
  const auto shares = [&](int64_t version, int64_t with) {  // counted over all steps
    const int64_t begin = a.offset + a.bytes * (version % a.count),
                  from = b.offset + b.bytes * (with % b.count);
    return begin < from + b.bytes && from < begin + a.bytes;
  };
  const int64_t rounds = std::lcm(int64_t{a.count}, int64_t{b.count});
  if (double(rounds) * versions(a) * versions(b) > double(most_pairs)) return false;
  const auto round = static_cast<int>(rounds);  // number of steps after which the slots repeat
  for (int d = 0; d < plan_.devices; ++d) {
    if (at(view_.program, d) != program) continue;
    for (int v = 0; v < versions(a); ++v)
      for (int w = 0; w < versions(b); ++w) {
        const Use mine = use(d, r, v), theirs = use(d, other, w);
        const int after = behind(mine, theirs), before = behind(theirs, mine);
        // The other's version is t steps later. For t between these bounds, neither comes after the other.
        const int from = before == no_token ? (after == no_token ? 0 : after - round) : 1 - before;
        const int until = after == no_token ? from + round : after;
        if (int64_t{until - from} * round > most_pairs) return false;
        for (int t = from; t < until; ++t)
          for (int s = 0; s < round; ++s) {
            const int64_t step = s + int64_t{round} * (std::abs(t) + 1);
            if (shares(a.initial + v + step * versions(a), b.initial + w + (step + t) * versions(b)))
              return false;
          }
      }
  }
  return true;
}

}  // namespace boxcar::planner
