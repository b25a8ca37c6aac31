#include <algorithm>

#include "cli/export/export.h"

namespace boxcar::cli::exports {

const std::vector<Framework>& frameworks() {
  static const std::vector<Framework> all{megatron(), nemo(), torchtitan(), deepspeed()};
  return all;
}

const Framework* find_framework(std::string_view name) {
  const std::vector<Framework>& all = frameworks();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Framework& f) { return f.name == name; });
  return found == all.end() ? nullptr : &*found;
}

const std::vector<Row>& common_rows() {
  static const std::vector<Row> rows{
      {{"cluster.preset", "cluster.device"}, {}, "a comment names the machines"},
      {{"cluster.memory_margin"}, {}, "a limit of the plan, which no framework has to know"},
      {{"train.preset"}, {}, "every key that it sets is exported by itself"},
      {{"train.stack"}, {}, "a comment names the framework that was simulated"},
      {{"train.sparse_tables"},
       {},
       "true",
       [](Writer& w) {
         if (w.from.train().sparse_tables) w.cannot("whole tables are updated");
       }},
      {{"train.routing_skew"},
       {},
       "a simulated property of the data",
       [](Writer& w) {
         if (w.from.job().routing_skew > 1) w.cannot("it describes how a router behaves, and sets nothing");
       }},
      {{"model.channels", "model.classes", "model.width", "model.image", "model.channels_last"},
       {},
       "of models of images, which deepspeed alone takes"},
      {{"model.graph"}, {}, "a model of your own, which deepspeed alone takes; its program builds it"},
      {{"parallel.servers", "parallel.servers_update"},
       {},
       "parameter servers",
       [](Writer& w) {
         if (w.from.parallel().servers > 0)
           w.cannot("gradients are reduced by collectives; BytePS is a library of its own");
       }},
      {{"parallel.stage_order"},
       {},
       "stages on other devices than in order",
       [](Writer& w) {
         if (!w.from.parallel().stage_order.empty())
           w.cannot("stages stand in order; order the host list of the launch so that they do");
       }},
  };
  return rows;
}

}  // namespace boxcar::cli::exports
