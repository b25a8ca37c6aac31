#include "trainer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <mutex>
#include <tuple>

#include "actors/runtime.h"
#include "backends/cpu/convert.h"
#include "backends/cpu/cpu_backend.h"
#include "planner/verify.h"
#include "sbp/at.h"

namespace boxcar::tests {
namespace {

using backends::Moment;
using planner::Place;

// The part of an input that a device loads for one micro-batch.
HostTensor input_part(const Place& place, int device, const Start& start, const Moment& moment) {
  const std::vector<sbp::Range>& ranges = at(place.ranges, device);
  HostTensor part{{{}, place.type.dtype}, {}};
  for (const sbp::Range& range : ranges) part.type.shape.push_back(range.size());
  const int64_t before = moment.micro_batch * place.type.elements();
  backends::cpu::for_each(part.type.shape, [&](const std::vector<int64_t>& index, int64_t) {
    int64_t element = 0;
    for (size_t a = 0; a < index.size(); ++a)
      element = element * place.type.shape[a] + ranges[a].begin + index[a];
    part.data.push_back(start.data(place.tensor, moment.step, before + element));
  });
  return part;
}

HostTensor state_part(const Place& place, int device, const Start& start) {
  const std::vector<sbp::Range>& ranges = at(place.ranges, device);
  HostTensor part{{{}, place.type.dtype}, {}};
  for (const sbp::Range& range : ranges) part.type.shape.push_back(range.size());
  part.data.resize(static_cast<size_t>(part.type.elements()));
  backends::host::fill_initial(place.tensor, place.type.shape, ranges, start.rule(place.tensor), start.seed,
                               part.data);
  return part;
}

class Trainer {
 public:
  Trainer(const planner::LaidOut& laid, const Start& start, const MakeBackend& make_backend,
          const Running& running)
      : laid_(laid),
        plan_(planner::compile(laid)),
        places_(planner::places_of(laid)),
        start_(start),
        backend_(make_backend(plan_.devices)) {
    planner::verify(plan_);
    actors::Hooks hooks;
    hooks.fill = [this](int device, const ir::Register& reg, const Moment& moment,
                        std::span<std::byte> bytes) { fill(device, reg, moment, bytes); };
    hooks.watch = {"loss"};
    hooks.watched = [this](int device, const ir::Register&, const Moment& moment,
                           std::span<const std::byte> bytes) { note_loss(device, moment, bytes); };
    hooks.learning_rate = running.learning_rate;
    runtime_ = std::make_unique<actors::Runtime>(
        plan_, *backend_, hooks, actors::RunOptions{.seed = start.seed, .graphs = running.graphs});
  }

  Outcome run(int steps, const Running& running) {
    const int64_t chunk = running.chunk > 0 ? running.chunk : steps;
    for (int64_t made = 0; made < steps; made += chunk) {
      runtime_->steps(std::min<int64_t>(chunk, steps - made), made);
      if (running.after_chunk) running.after_chunk();
    }
    Outcome outcome{std::vector<double>(static_cast<size_t>(steps), 0.0), {}};
    for (const auto& [when, loss] : losses_)
      at(outcome.losses, std::get<0>(when)) += loss / plan_.micro_batches;
    for (const ir::Update& update : laid_.graph.updates)
      gather(*places_.find(laid_.graph.tensor(update.state).name), outcome.state);
    for (const ir::Update& update : laid_.graph.updates)
      expect_equal_copies(*places_.find(laid_.graph.tensor(update.state).name), outcome.state);
    return outcome;
  }

 private:
  void fill(int device, const ir::Register& reg, const Moment& moment, std::span<std::byte> bytes) const {
    const Place* place = places_.find(reg.name);
    ASSERT_NE(place, nullptr) << reg.name;
    const ir::Tensor& tensor = laid_.graph.tensor(ir::find_tensor(laid_.graph, place->tensor));
    const HostTensor part = tensor.role == ir::Role::input ? input_part(*place, device, start_, moment)
                                                           : state_part(*place, device, start_);
    ASSERT_EQ(part.type, reg.type) << reg.name;
    backends::cpu::store(part, bytes.data());
  }

  void note_loss(int device, const Moment& moment, std::span<const std::byte> bytes) {
    const Place& loss = *places_.find("loss");
    if (!at(loss.first, device)) return;
    const std::lock_guard lock(mutex_);
    losses_[{moment.step, moment.micro_batch, device}] =
        backends::cpu::load({{}, loss.type.dtype}, bytes.data()).data[0];
  }

  HostTensor read(const Place& place, int device) const {
    ir::TensorType type{{}, place.type.dtype};
    for (const sbp::Range& range : at(place.ranges, device)) type.shape.push_back(range.size());
    return backends::cpu::load(type, runtime_->read(device, place.reg).data());
  }

  void gather(const Place& place, std::map<std::string, HostTensor>& state) const {
    HostTensor& whole = state.try_emplace(place.tensor, backends::cpu::zeros(place.type)).first->second;
    for (int device = 0; device < plan_.devices; ++device)
      if (at(place.first, device)) backends::cpu::put(whole, at(place.ranges, device), read(place, device));
  }

  // Parts held by several devices are equal on all of them.
  void expect_equal_copies(const Place& place, const std::map<std::string, HostTensor>& state) const {
    for (int device = 0; device < plan_.devices; ++device) {
      const auto d = static_cast<size_t>(device);
      if (!place.holds[d] || place.first[d]) continue;
      EXPECT_EQ(backends::cpu::take(state.at(place.tensor), place.ranges[d]).data, read(place, device).data)
          << place.reg << " on device " << device;
    }
  }

  const planner::LaidOut& laid_;
  ir::Plan plan_;
  planner::Places places_;
  const Start& start_;
  std::unique_ptr<backends::Backend> backend_;
  std::mutex mutex_;
  std::map<std::tuple<int64_t, int64_t, int>, double> losses_;  // by step, micro-batch and device
  std::unique_ptr<actors::Runtime> runtime_;
};

double largest(const std::vector<double>& values) {
  double most = 0;
  for (double value : values) most = std::max(most, std::abs(value));
  return most;
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double gap = std::abs(a[i] - b[i]);
    most = std::isnan(gap) ? std::numeric_limits<double>::infinity() : std::max(most, gap);
  }
  return most;
}

}  // namespace

std::unique_ptr<backends::Backend> cpu_devices(int devices) {
  return backends::cpu::make_cpu_backend(devices);
}

Outcome train(const planner::LaidOut& laid, const Start& start, int steps, const MakeBackend& make_backend,
              const Running& running) {
  return Trainer(laid, start, make_backend, running).run(steps, running);
}

double distance(const HostTensor& a, const HostTensor& b) { return distance(a.data, b.data); }

double loss_distance(const Outcome& a, const Outcome& b) { return distance(a.losses, b.losses); }

void expect_same(const Outcome& got, const Outcome& wanted, double tolerance) {
  EXPECT_LE(loss_distance(got, wanted), tolerance * largest(wanted.losses)) << "losses";
  ASSERT_EQ(got.state.size(), wanted.state.size());
  for (const auto& [name, tensor] : wanted.state) {
    ASSERT_TRUE(got.state.contains(name)) << name;
    EXPECT_LE(distance(got.state.at(name), tensor), tolerance * largest(tensor.data)) << name;
  }
}

}  // namespace boxcar::tests
