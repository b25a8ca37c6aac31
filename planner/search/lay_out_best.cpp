#include <algorithm>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "planner/search/refine.h"
#include "sbp/at.h"

namespace boxcar::search {
namespace {

// The most that layouts can save: as a share of a step; as a share of a step's time beyond its kernels.
constexpr double most_saved = 0.4, most_saved_beyond_kernels = 0.6;
constexpr double bound_by_kernels = 0.85;  // of the best step: above it, nothing can be saved
// The most jobs that are laid out against their estimates: on meshes of several dimensions, over nodes.
constexpr size_t most_of_several = 3, most_over_nodes = 3;
constexpr planner::MeshOrder tensor_outermost{planner::MeshAxis::cp, planner::MeshAxis::tp,
                                              planner::MeshAxis::dp, planner::MeshAxis::pp};
constexpr int most_runs = 128;     // of a layer, in a step, on a device
constexpr int most_solved = 1000;  // nodes of a problem that takes some ms; on one dimension 4 times as many
constexpr size_t most_found_changes = 24;  // candidates that change_found tries: other ways and other jobs

bool has_layouts(const planner::Job& job) {
  return planner::mesh_of(job.parallel).devices() > 1 && job.parallel.servers == 0;
}

// Whether a job that its estimate kept from simulation may still be laid out: a device runs few layers.
bool is_quick(const planner::Job& job) {
  return is_short(job) && job.model.layers() * job.train.micro_batches <= most_runs * job.parallel.pp;
}

class LayOut {
 public:
  explicit LayOut(const Refinement& of)
      : attempts_(of.attempts),
        points_(of.points),
        candidates_(of.candidates),
        options_(of.options),
        fixed_(of.fixed) {}

  void make() {
    if (options_.lay_out == 0) return;
    lay_out_best();
    if (least_bytes_) lay_out_all_degrees();
  }

 private:
  // A way to search for layouts.
  struct Way {
    Open open = Open::one;
    LayoutWeights weights = {};
  };
  Way all_open(const planner::Job& job) const {
    if (planner::mesh_of(job.parallel).dims() == 1) return {};
    return {options_.both ? Open::both : Open::each, {}};
  }

  // For the least time, collectives of states count fully, or as if beside other work. On a mesh of several
  // dimensions, one way opens one dimension, another all of them. For the least memory, bytes come first.
  std::vector<Way> ways(const planner::Job& job) const {
    const Open most = all_open(job).open;
    std::vector<Way> all{{Open::one, {}}};
    if (most != Open::one) all.push_back({most, {}});
    if (most == Open::one || is_short(job)) all.push_back({most, {0.1, 0}});
    if (least_bytes_) all.push_back({most, {1, bytes_first_weight}});
    return all;
  }

  // Tries the best with the layout of every op chosen, then those of other degrees that could win by it, each
  // in one way. Then tries the best result in all other ways.
  void lay_out_best() {
    const char* move = "lay-out-best";
    for (const Candidate& c : attempts_.hopeful(most_saved, options_.lay_out)) {
      if (could_win(c)) lay_out_one(c, move);
      move = "lay-out-degrees";
    }
    if (!least_bytes_) {
      for (const Candidate& c : of_other_meshes()) lay_out_one(c, "lay-out-meshes");
      for (const Candidate& c : over_nodes()) lay_out_one(c, "lay-out-over-nodes", false);
    }
    change_found();
    if (!least_bytes_) recompute_less();
  }

  // Recomputes only as many layers as memory requires with the layouts of the best.
  void recompute_less() {
    const Move* const move = move_of(options_, "recompute-less");
    while (move && !attempts_.asked_to_stop() && !attempts_.best().empty()) {
      const Candidate best = attempts_.best().front();
      if (!best.layouts || best.stage_bytes.empty()) return;
      std::optional<Candidate> fewest = points_.with_fewest_recomputed(best);
      if (!fewest) return;
      fewest->move = move;
      fewest->layouts.reset();
      std::vector<Candidate> laid;
      lay_out(*fewest, {best.layouts->open, best.layouts->weights}, laid);
      if (laid.empty()) return;
      attempts_.attempt_laid_out(laid);
    }
  }

  // With `others`, also tries the moves' changes of its job.
  void lay_out_one(Candidate c, const char* move, bool others = true) {
    c.move = move_of(options_, move);
    if (!c.move || attempts_.asked_to_stop() || !has_layouts(c.job)) return;
    const int most = planner::mesh_of(c.job.parallel).dims() > 1 ? most_solved : 4 * most_solved;
    if (attempts_.solved() > most) return;
    std::vector<Candidate> laid;
    lay_out(c, all_open(c.job), laid);
    if (others && !least_bytes_)
      for (const Candidate& one : changed(c, MoveGroup::lay_out)) lay_out(one, all_open(c.job), laid);
    attempts_.attempt_laid_out(laid);
  }

  // On meshes of several dimensions, the large tensors of a layer may cross slow links with the degrees'
  // layouts. Found layouts send the least there: samples or states are split over nodes, with any layouts
  // inside nodes. For each number of stages, takes the best by estimate, with the tensor dimension inside
  // nodes and over them, if it could win by its kernels; if the best step is long, also by its estimate. Of
  // meshes of one dimension it takes only the best of replicas.
  std::vector<Candidate> of_other_meshes() const {
    std::vector<Candidate> some;
    if (attempts_.best().empty()) return some;
    const double most_kernels = bound_by_kernels * attempts_.value(attempts_.best().front());
    const bool long_best = !is_short(attempts_.best().front().job);
    std::set<int> done[3];  // numbers of stages: inside nodes, over nodes, and only replicas
    for (const Candidate& c : candidates_) {
      if (!is_quick(c.job) || value_of(options_.goal, c.job, c.kernel_seconds, 0) > most_kernels) continue;
      if (long_best && !could_win(c)) continue;
      const planner::Hints& h = c.job.parallel;
      const planner::Mesh mesh = planner::mesh_of(h);
      if (mesh.dims() < 2 && h.dp < c.job.gpus) continue;
      const int tp = mesh.dim(planner::MeshDim::tp);
      const bool over_nodes = tp >= 0 && at(mesh.strides, tp) >= c.job.cluster.node.gpus;
      std::set<int>& stages = done[mesh.dims() < 2 ? 2 : over_nodes ? 1 : 0];
      if (stages.size() < most_of_several && stages.insert(h.pp).second) some.push_back(anew(c));
    }
    return some;
  }

  // With slow links between nodes, the tensor dimension over nodes and everything else inside them may be
  // fastest with found layouts, which then split samples there, although it is slow without them. So
  // estimates do not choose it. Only kernels do: for each number of stages, a job must be able to win by its
  // kernels.
  std::vector<Candidate> over_nodes() const {
    std::vector<Candidate> some;
    if (attempts_.best().empty() || fixed_.is_pinned("mesh_order")) return some;
    std::vector<std::pair<double, const Candidate*>> by_kernels;
    for (const Candidate& c : candidates_) {
      const planner::Hints& h = c.job.parallel;
      if (is_quick(c.job) && h.tp > 1 && h.cp == 1 && h.dp * h.pp == c.job.cluster.node.gpus)
        by_kernels.emplace_back(value_of(options_.goal, c.job, c.kernel_seconds, 0), &c);
    }
    std::ranges::stable_sort(by_kernels, {}, &std::pair<double, const Candidate*>::first);
    const double most_kernels = bound_by_kernels * attempts_.value(attempts_.best().front());
    std::set<int> stages;
    for (const auto& [kernels, c] : by_kernels) {
      if (some.size() == most_over_nodes || kernels > most_kernels) break;
      Candidate other = anew(*c);
      other.job.parallel.mesh_order = tensor_outermost;
      other.estimated_seconds = 0;  // of another order
      if (fixed_.keeps_own_rules(other.job) && stages.insert(c->job.parallel.pp).second)
        some.push_back(std::move(other));
    }
    return some;
  }

  bool could_win(const Candidate& c) const {
    const double seconds = c.seconds > 0 ? c.seconds : c.estimated_seconds;
    const double hoped = seconds - most_saved_beyond_kernels * (seconds - c.kernel_seconds);
    return value_of(options_.goal, c.job, hoped, 0) <= attempts_.value(attempts_.best().front());
  }

  // Tries the best in all other ways and, if steps are short, also with other micro-batches and other splits
  // of backward passes, each with its own layouts. Continues from the result while that helps, then from the
  // best of other degrees that are nearly equal.
  void change_found() {
    std::set<JobKey> starts;
    for (size_t left = most_found_changes; !attempts_.asked_to_stop();) {
      const std::vector<Candidate> some = attempts_.hopeful(near_best, 2 * most_of_degrees);
      const auto start = std::find_if(some.begin(), some.end(), [&](const Candidate& c) {
        return has_layouts(c.job) && starts.insert(key_of(c.job)).second;
      });
      if (start == some.end()) return;
      std::vector<Candidate> others;
      Candidate same_job = *start;
      same_job.move = move_of(options_, "other-ways");
      for (const Way& way : ways(start->job))
        if (same_job.move) lay_out(same_job, way, others);
      const bool changes = start->layouts && is_short(start->job) && attempts_.solved() <= most_solved;
      if (changes && !least_bytes_)
        for (Candidate& other : changed(*start, MoveGroup::found)) {
          other.layouts.reset();
          lay_out(other, {start->layouts->open, start->layouts->weights}, others);
        }
      if (others.size() > left) return;
      left -= others.size();
      attempts_.attempt_laid_out(others);
    }
  }

  // Degrees do not determine the bytes of layouts, so this tries the smallest of each, as many as are
  // simulated.
  void lay_out_all_degrees() {
    const Move* const move = move_of(options_, "bytes-first");
    if (!move) return;
    std::set<Degrees> done;
    std::vector<Candidate> laid;
    for (const Candidate& c : candidates_) {
      if (laid.size() == static_cast<size_t>(options_.simulate)) break;
      if (!has_layouts(c.job) || !done.insert(degrees_of(c.job)).second) continue;
      Candidate small = c;
      small.move = move;
      lay_out(small, {all_open(c.job).open, {1, bytes_first_weight}}, laid);
    }
    attempts_.attempt_laid_out(laid);
  }

  // Adds it to those to be tried, if it was not tried yet.
  void lay_out(const Candidate& known, const Way& way, std::vector<Candidate>& into) {
    const bool done = known.layouts && known.layouts->open == way.open && known.found.weights == way.weights;
    if (done || !laid_.insert({key_of(known.job), way.open, way.weights.states, way.weights.memory}).second)
      return;
    into.push_back(anew(known));
    into.back().layouts = attempts_.asked();
    into.back().layouts->open = way.open;
    into.back().layouts->weights = way.weights;
  }

  // Candidates that the moves of a group make from its job. Estimates are those of the degrees' layouts.
  std::vector<Candidate> changed(const Candidate& start, MoveGroup group) const {
    const Around around{start.job, candidates_, fixed_};
    std::vector<Candidate> all;
    for (const Move* move : moves_of(options_, group, around))
      for (planner::Job& job : proposals(*move, around)) {
        all.push_back(anew(start));
        all.back().job = std::move(job);
        all.back().estimated_seconds = 0;
        all.back().move = move;
      }
    return all;
  }

  Attempts& attempts_;
  Candidates& points_;
  const std::vector<Candidate>& candidates_;
  const SearchOptions& options_;
  const Fixed& fixed_;
  const bool least_bytes_ = options_.goal == Goal::memory;
  std::set<std::tuple<JobKey, Open, double, double>> laid_;
};

}  // namespace

void lay_out_best(const Refinement& of) { LayOut(of).make(); }

}  // namespace boxcar::search
