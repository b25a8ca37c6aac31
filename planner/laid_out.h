// A training graph with a layout for every tensor. A plan is lowered from it, and it gives the places of the
// plan's tensors.
//
//   const LaidOut laid = lay_out(job);             // or lay_out(graph, mesh, pins, micro_batches)
//   const ir::Plan plan = compile(laid);
//   const Places places = places_of(laid);
#pragma once

#include <functional>
#include <vector>

#include "ir/graph.h"
#include "ir/plan.h"
#include "planner/deduce.h"
#include "planner/mesh.h"
#include "planner/pins.h"
#include "planner/places.h"
#include "planner/schedule.h"
#include "planner/stages.h"
#include "planner/tied.h"

namespace boxcar::planner {

struct LaidOut {
  ir::Graph graph;
  Hints hints;
  Mesh mesh;  // of one stage
  Pipeline pipeline;
  std::vector<OpSite> sites;  // by op
  Pins pins;
  Deduction layouts;
};

LaidOut lay_out(const ResolvedJob& job);
// The same with the layouts that `choose` gives for the job's training graph; the others are deduced.
using Choose = std::function<Layouts(const ir::Graph& graph, const Hints& hints, const Mesh& mesh)>;
LaidOut lay_out(const ResolvedJob& job, const Choose& choose);
// Any training graph (ir::training_step's) under complete hints: a stage has the ops of its layers
// (Builder::set_layer), and each parameter is read on one stage.
LaidOut lay_out(ir::Graph graph, const Hints& hints, int micro_batches, const Choose& choose = nullptr);
// Any training graph on one stage, with `pins` by tensor of the graph; all other layouts are deduced. Throws
// Error (bad input) if pins and graph do not match or micro_batches is below 1.
LaidOut lay_out(ir::Graph graph, const Mesh& mesh, Pins pins, int micro_batches);

// The hints that lay_out reads, with defaults for those that only lowering reads. Jobs with equal training
// graphs, micro-batches and layout hints have equal layouts.
Hints layout_hints(Hints hints);

// Does lowering, registers and memory. The plan is checked but has no facts and is not yet verified.
ir::Plan compile(const LaidOut& laid);

// The same for a job with these layouts, whose hints may differ in what lowering alone reads, and with its
// facts.
ir::Plan compile(const LaidOut& laid, const ResolvedJob& job);

Places places_of(const LaidOut& laid);

}  // namespace boxcar::planner
