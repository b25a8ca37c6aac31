#include "shrink.h"

#include <algorithm>

#include "draw.h"

namespace boxcar::tests {
namespace {

// Values before the job's own, in order.
std::vector<std::string> smaller(const RandomJob& job, const Dimension& d) {
  const auto own = std::find(d.values.begin(), d.values.end(), job.value(d.path));
  return {d.values.begin(), own};
}

}  // namespace

RandomJob shrink(RandomJob job, const std::function<bool(const RandomJob&)>& fails) {
  for (bool again = true; again;) {
    again = false;
    for (const Dimension& d : dimensions())
      for (const std::string& value : smaller(job, d)) {
        const RandomJob less = job.with(d.path, value);
        if (refusal(less) || !fails(less)) continue;
        job = less;
        again = true;
        break;
      }
  }
  return job;
}

}  // namespace boxcar::tests
