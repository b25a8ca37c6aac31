#include "planner/lowering/buckets.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace boxcar::planner {

std::string bucket_key(const Stage& stage, const Boxed& boxed) {
  const ir::TensorType& type = stage.tensor(boxed.t).type;
  std::string key;
  for (const sbp::MeshStep& step : stage.in.routes.find(type.shape, boxed.from, boxed.to).steps) {
    key += sbp::to_text(step.collective);
    for (int d : step.dims) key += fmt::format(" {}", d);
    key += ';';
  }
  return key + ir::to_text(type.dtype);
}

std::vector<Bucket> buckets_of(const Stage& stage, const Bucket& all, bool by_size) {
  struct Open {
    Bucket bucket;
    int64_t bytes = 0;
  };
  std::map<std::string, Open> open;
  std::vector<Bucket> full;
  const int64_t limit = int64_t{stage.in.hints.grad_bucket_mb} << 20;
  for (const Boxed& boxed : all) {
    Open& o = open[bucket_key(stage, boxed)];
    o.bucket.push_back(boxed);
    if (!by_size) continue;
    o.bytes +=
        std::max(stage.local_type(boxed.t, boxed.from).bytes(), stage.local_type(boxed.t, boxed.to).bytes());
    if (o.bytes >= limit) full.push_back(std::move(std::exchange(o, {}).bucket));
  }
  for (auto& [key, o] : open)
    if (!o.bucket.empty()) full.push_back(std::move(o.bucket));
  return full;
}

}  // namespace boxcar::planner
