#include "actors/training/trainer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <optional>
#include <utility>

#include "actors/training/collector.h"
#include "actors/training/evaluate.h"
#include "actors/training/input_pipeline.h"
#include "actors/training/loss_table.h"
#include "backends/host/parts.h"
#include "ir/ops/optimizers.h"
#include "ir/passes/step_tensors.h"
#include "ir/units.h"
#include "planner/checkpoints.h"
#include "planner/input_pipeline.h"
#include "planner/training_graph.h"
#include "planner/verify.h"
#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::training {
namespace {

using backends::Channel;
using backends::Moment;
using backends::host::GlobalTensors;
using backends::host::StoredTensor;
using backends::host::TrainState;
using planner::Place;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Messages on Channel::results from other processes to process 0, and from process 0 after validation.
struct LossMessage {
  ResultKind kind = ResultKind::loss;
  int64_t step = 0, micro_batch = 0, device = 0;
  double value = 0;
};

// A message on the same channel, followed by a process's acts.
struct ActsMessage {
  ResultKind kind = ResultKind::timeline;
  double began = 0;  // by the machine's clock
};

constexpr const char* image_register = "images";
// A hint if a number is not finite. Optimizers divide by a root of a sum of squares plus eps.
const char* mend(const ir::TrainOptions& train) {
  const bool may_divide_by_zero = train.eps == 0 && ir::has_number(ir::row_of(train.optimizer), "eps");
  return may_divide_by_zero ? "(use an eps above 0, a lower learning_rate, warmup_steps or another precision)"
                            : "(use a lower learning_rate, warmup_steps or another precision)";
}

// Throws Error (fault) if a weight or moment after `step` steps is not finite, because no run could continue
// from it.
void check_finite(int64_t step, const GlobalTensors& tensors, const ir::TrainOptions& train) {
  for (const auto& [name, tensor] : tensors) {
    const int64_t size = ir::size_of(tensor.type.dtype);
    for (int64_t i = 0; i < tensor.type.elements(); ++i) {
      const double value = backends::host::load_element(tensor.type.dtype, tensor.bytes.data() + i * size);
      if (!std::isfinite(value))
        throw Error::fault(fmt::format("step {}", step),
                           fmt::format("{} has a {} {}", name, value, mend(train)));
    }
  }
}

}  // namespace

TrainingJob prepare_training(const planner::ResolvedJob& job, const TrainRun& run, double share) {
  const planner::LaidOut laid = planner::lay_out(job);
  return prepare_training(job, planner::compile(laid, job), laid, run, share);
}

TrainingJob prepare_training(const planner::ResolvedJob& job, ir::Plan plan, const planner::LaidOut& laid,
                             const TrainRun& run, double share) {
  TrainingJob result{job, planner::padded_model(job), std::move(plan), planner::places_of(laid)};
  constexpr int64_t most_slots = 1000;
  if (has_encoded_images(run))
    planner::add_input_pipeline(result.plan, image_register, static_cast<int>(run.decoders),
                                static_cast<int>(run.prefetch));
  if (run.checkpoint_every > 0)
    planner::add_checkpoints(result.plan, result.places,
                             static_cast<int>(std::min(run.checkpoint_every + 1, most_slots)));
  planner::verify(result.plan);
  double needed = 0;
  for (const ir::RankClass& cls : result.plan.classes) {
    const ir::Program& program = at(result.plan.programs, cls.program);
    needed += (share * static_cast<double>(program.arena_bytes) + static_cast<double>(program.host_bytes)) *
              static_cast<double>(cls.devices.size());
  }
  const double there =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
  if (needed > there)
    throw Error::cannot_run(
        "", fmt::format(
                "does not fit: devices of the plan need {} on this machine, which has {} (use more machines, "
                "or a smaller model, micro_batch or seq)",
                ir::format_bytes(needed), ir::format_bytes(there)));
  return result;
}

struct Trainer::Impl {
  const TrainingJob& job;
  const TrainRun& run;
  backends::Backend& backend;
  backends::host::HeldFolder* folder;
  const Data& data;
  bool first_process;
  Collector collector;
  std::optional<InputPipeline> pipeline;  // of encoded images

  GlobalTensors initial;  // until the runtime is filled
  TrainState state;
  std::unique_ptr<actors::Runtime> runtime;

  std::mutex mutex;  // guards all members below
  std::condition_variable changed;
  LossTable table;
  RunListener* listener = nullptr;
  Clock::time_point step_end;
  int64_t steps_logged = 0;
  std::string last_checkpoint;
  double began = 0;                  // seconds, by this machine's clock
  std::atomic<int64_t> skipped = 0;  // steps without an update because gradients overflowed
  int64_t validated = 0;             // steps, as reported by process 0
  int timelines = 0;                 // number of processes that have sent all their acts
  std::vector<actors::RunAct> others_acts;

  Impl(const TrainingJob& j, const TrainRun& r, backends::Backend& b, const Data& d,
       backends::host::HeldFolder* held)
      : job(j),
        run(r),
        backend(b),
        folder(held),
        data(d),
        first_process(!b.transport() || b.transport()->process() == 0),
        collector(j.places, b),
        table(loss_devices(), j.job->train.micro_batches) {
    if (data.encoded && images())
      pipeline.emplace(*data.encoded, *images(), job.plan, job.job->global_batch, b);
    if (b.transport()) b.transport()->listen(Channel::results, [this](int, auto bytes) { receive(bytes); });
  }

  // The place to which encoded images are loaded; null if the model reads none.
  const Place* images() const { return job.places.find(image_register); }

  const Place& loss_place() const {
    const Place* place = job.places.loss();
    if (!place) throw Error::fault("loss", "the plan has no register of it");
    return *place;
  }
  int loss_devices() const {
    const Place& place = loss_place();
    return static_cast<int>(std::count(place.first.begin(), place.first.end(), true));
  }

  // --- into registers

  void fill(int device, const ir::Register& reg, const Moment& moment, std::span<std::byte> bytes) {
    const Place* place = job.places.find(reg.name);
    if (!place || !at(place->holds, device))
      throw Error::fault("%" + reg.name, fmt::format("device {} has no place for it", device));
    const auto& ranges = at(place->ranges, device);
    if (place->holding == planner::Holding::input) {
      if (pipeline && place == images()) return pipeline->load(device, moment, bytes);
      return load(*place, ranges, moment, bytes);
    }
    const auto found = initial.find(place->tensor);
    if (found == initial.end())  // a moment, which begins at zero
      std::fill(bytes.begin(), bytes.end(), std::byte{0});
    else
      backends::host::take_part(found->second, ranges, reg.type.dtype, bytes);
  }

  void load(const Place& place, const std::vector<sbp::Range>& ranges, const Moment& moment,
            std::span<std::byte> bytes) {
    const int64_t first = moment.step * job.job->global_batch + moment.micro_batch * place.type.shape[0];
    const bool wide = place.type.dtype == ir::DType::float64;
    std::byte* out = bytes.data();
    for (int64_t row = ranges[0].begin; row < ranges[0].end; ++row)
      out += data.samples->read(place.reg, first + row, std::span(ranges).subspan(1), wide, out);
  }

  // --- losses

  // Every device knows whether the gradients of all are finite. Device 0 belongs to process 0.
  void note_finite(int device, std::span<const std::byte> bytes) {
    if (device == 0 && bytes[0] == std::byte{0}) ++skipped;
  }

  void watched(int device, const Moment& moment, std::span<const std::byte> bytes) {
    if (!at(loss_place().first, device)) return;
    const double value = backends::host::load_element(loss_place().type.dtype, bytes.data());
    if (!std::isfinite(value))
      throw Error::fault(fmt::format("step {}", moment.step + 1),
                         fmt::format("the loss is {} {}", value, mend(job.job->train)));
    if (first_process) return add_loss(moment.step, moment.micro_batch, device, value);
    const LossMessage message{ResultKind::loss, moment.step, moment.micro_batch, device, value};
    backend.transport()->send(0, Channel::results, std::as_bytes(std::span(&message, 1)));
  }

  void add_loss(int64_t step, int64_t micro_batch, int device, double value) {
    const std::lock_guard lock(mutex);
    const auto loss = table.add(step, micro_batch, device, value);
    if (!loss) return;
    const auto now = Clock::now();
    if (listener)
      listener->step({step + 1, *loss, learning_rate(run, job.job->train.learning_rate, step),
                      std::chrono::duration<double>(now - step_end).count()});
    step_end = now;
    steps_logged = step + 1;
    changed.notify_all();
  }

  // --- between processes

  void receive(std::span<const std::byte> bytes) {
    LossMessage message;
    std::memcpy(&message.kind, bytes.data(), sizeof message.kind);
    if (message.kind == ResultKind::part) return collector.receive(bytes);
    if (message.kind == ResultKind::timeline) return receive_acts(bytes);
    std::memcpy(&message, bytes.data(), sizeof message);
    if (message.kind == ResultKind::validated) {
      const std::lock_guard lock(mutex);
      validated = message.step;
      return changed.notify_all();
    }
    add_loss(message.step, message.micro_batch, static_cast<int>(message.device), message.value);
  }

  // Waits for messages from other processes.
  template <typename There>
  void wait_for(const std::string& what, There there) {
    const backends::Waiting::Act name(what);
    std::unique_lock lock(mutex);
    while (!there()) {
      if (!backend.transport()) throw Error::fault(what, "no act of the plan made it");
      const std::string whom = first_process ? "the other processes" : "process 0";
      const backends::Waiting::Entry entry(backend.transport()->waiting(), whom);
      try {
        backend.transport()->check();
      } catch (const Error& error) {
        throw Error::fault(what + ": waits for " + whom, error.what());
      }
      changed.wait_for(lock, std::chrono::milliseconds(50), there);
    }
  }
  void wait_for_losses(int64_t step) {
    wait_for("loss", [&] { return steps_logged == step; });
  }

  std::vector<actors::RunAct> whole_timeline() {
    const std::vector<actors::RunAct>& mine = runtime->timeline();
    if (!backend.transport()) return mine;
    if (!first_process) {
      const ActsMessage message{ResultKind::timeline, began};
      std::vector<std::byte> bytes(sizeof message + mine.size() * sizeof(actors::RunAct));
      std::memcpy(bytes.data(), &message, sizeof message);
      if (!mine.empty())
        std::memcpy(bytes.data() + sizeof message, mine.data(), bytes.size() - sizeof message);
      backend.transport()->send(0, Channel::results, bytes);
      return {};
    }
    wait_for("trace", [&] { return timelines == backend.transport()->processes() - 1; });
    others_acts.insert(others_acts.end(), mine.begin(), mine.end());
    return std::exchange(others_acts, {});
  }
  void receive_acts(std::span<const std::byte> bytes) {
    ActsMessage message;
    std::memcpy(&message, bytes.data(), sizeof message);
    std::vector<actors::RunAct> acts((bytes.size() - sizeof message) / sizeof(actors::RunAct));
    if (!acts.empty()) std::memcpy(acts.data(), bytes.data() + sizeof message, bytes.size() - sizeof message);
    const std::lock_guard lock(mutex);
    for (actors::RunAct& act : acts) {
      act.start += message.began - began, act.end += message.began - began;
      others_acts.push_back(act);
    }
    ++timelines;
    changed.notify_all();
  }

  // --- the run

  int64_t next_stop(int64_t step) const {
    int64_t stop = run.steps;
    if (run.validate_every > 0) stop = std::min(stop, (step / run.validate_every + 1) * run.validate_every);
    return stop;
  }

  std::string checkpoint_path(int64_t step) const {
    return fmt::format("{}/step-{:06}", run.checkpoint_dir, step);
  }

  // Numbers of collections: of the acts that save, and of the driver between steps.
  static int64_t beside(int64_t steps) { return 2 * steps; }
  static int64_t between(int64_t steps) { return 2 * steps + 1; }

  // The driver writes the last checkpoint, after all steps.
  bool is_due(int64_t steps) const {
    return steps > state.step && steps < run.steps && steps % run.checkpoint_every == 0;
  }
  actors::Checkpoints checkpoints() {
    actors::Checkpoints acts;
    if (run.checkpoint_every == 0) return acts;
    acts.due = [this](int64_t steps) { return is_due(steps); };
    acts.save = [this](int device, const ir::Register& reg, int64_t steps, std::vector<std::byte> bytes) {
      collector.add(beside(steps), device, reg.name, std::move(bytes));
    };
    acts.write = [this](int device, int64_t steps, const Collector::Check& check) {
      if (device == 0) write(steps, collector.take(beside(steps), check));
    };
    return acts;
  }

  // Called on process 0.
  void write(int64_t step, GlobalTensors tensors) {
    check_finite(step, tensors, job.job->train);
    TrainState reached = state;
    reached.step = step, reached.samples = step * job.job->global_batch;
    folder->keep();
    backends::host::write_checkpoint(run.checkpoint_dir, {job.model, reached, std::move(tensors)},
                                     static_cast<int>(run.keep_checkpoints));
    folder->keep();  // it may have been moved and made again meanwhile
    const std::lock_guard lock(mutex);
    last_checkpoint = checkpoint_path(step);
    listener->checkpoint(step, last_checkpoint);
  }

  void validate(int64_t step, const GlobalTensors& tensors) {
    const double loss =
        evaluate(job.model, tensors, *data.held_out->samples,
                 std::min(run.validation_batches * job.job->global_batch, data.held_out->count),
                 job.job->parallel.micro_batch);
    const std::lock_guard lock(mutex);
    listener->validation(step, loss);
  }
  // Process 0 validates alone. The others launch nothing meanwhile, because work that waits for it on their
  // devices would look as if it had stopped.
  void meet_after_validation(int64_t step) {
    if (!backend.transport()) return;
    if (!first_process) return wait_for("validation", [&] { return validated >= step; });
    const LossMessage message{ResultKind::validated, step, 0, 0, 0};
    for (int p = 1; p < backend.transport()->processes(); ++p)
      backend.transport()->send(p, Channel::results, std::as_bytes(std::span(&message, 1)));
  }

  void stop_at(int64_t step) {
    const bool last = step == run.steps;
    const bool saves = last && !run.checkpoint_dir.empty();
    const bool validates = data.held_out && run.validate_every > 0;
    if (saves || validates) collector.add(between(step), *runtime);
    if ((saves || validates) && first_process) {
      GlobalTensors tensors = take(step);
      if (validates) validate(step, tensors);
      if (saves) write(step, std::move(tensors));
    }
    if (validates) meet_after_validation(step);
    const std::lock_guard lock(mutex);
    step_end = Clock::now();
  }

  GlobalTensors take(int64_t step) {
    const backends::Waiting::Act name("checkpoint");
    return collector.take(between(step), [this](const std::string& whom) {
      try {
        if (backend.transport()) backend.transport()->check();
      } catch (const Error& error) {
        throw Error::fault("checkpoint: waits for " + whom, error.what());
      }
    });
  }

  void train(RunListener& told) {
    const auto start = Clock::now();
    {
      const std::lock_guard lock(mutex);
      listener = &told;
      step_end = start;
      began = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
    }
    for (int64_t step = state.step; step < run.steps;) {
      const int64_t stop = next_stop(step);
      runtime->steps(stop - step, step);
      if (first_process) wait_for_losses(stop);
      step = stop;
      stop_at(step);
    }
    const std::lock_guard lock(mutex);
    told.end({seconds_since(start), skipped, runtime->memory()});
    listener = nullptr;
  }
};

Trainer::Trainer(const TrainingJob& job, const TrainRun& run, backends::Backend& backend, const Data& data,
                 backends::host::HeldFolder* folder)
    : impl_(std::make_unique<Impl>(job, run, backend, data, folder)) {}
Trainer::~Trainer() = default;

void Trainer::begin(GlobalTensors tensors, const TrainState& state, const actors::RunOptions& options) {
  Impl& i = *impl_;
  for (const Place& place : i.job.places.places) {
    if (!is_state(place)) continue;
    const auto found = tensors.find(place.tensor);
    if (found == tensors.end()) {
      if (place.holding == planner::Holding::moment) continue;  // fill() sets it to zero
      throw Error::input("%" + place.tensor, "is missing among the weights");
    }
    if (found->second.type.shape != place.type.shape)
      throw Error::input(
          "%" + place.tensor,
          fmt::format("is {}, the model's is {}", ir::to_text(found->second.type), ir::to_text(place.type)));
  }
  i.initial = std::move(tensors);
  i.state = state;
  i.steps_logged = state.step;
  if (state.step > 0 && i.first_process) i.last_checkpoint = i.checkpoint_path(state.step);
  actors::Hooks hooks;
  hooks.fill = [&i](int device, const ir::Register& reg, const Moment& moment, std::span<std::byte> bytes) {
    i.fill(device, reg, moment, bytes);
  };
  hooks.prepare = [&i](int device, const ir::Actor& actor, const Moment& moment) {
    i.pipeline->act(device, actor, moment);
  };
  hooks.watch = {i.loss_place().reg};
  const bool may_overflow = i.job.job->train.precision == ir::Precision::fp16;
  if (may_overflow) hooks.watch.insert(ir::finite_name);
  hooks.watched = [&i, may_overflow](int device, const ir::Register& reg, const Moment& moment,
                                     std::span<const std::byte> bytes) {
    if (may_overflow && reg.name == ir::finite_name) return i.note_finite(device, bytes);
    i.watched(device, moment, bytes);
  };
  hooks.learning_rate = [&i](int64_t step) {
    return learning_rate(i.run, i.job.job->train.learning_rate, step);
  };
  hooks.checkpoints = i.checkpoints();
  i.runtime = std::make_unique<actors::Runtime>(i.job.plan, i.backend, std::move(hooks), options);
  i.initial.clear();
}

void Trainer::train(RunListener& listener) { impl_->train(listener); }
std::string Trainer::last_checkpoint() {
  const std::lock_guard lock(impl_->mutex);
  std::error_code none;
  return std::filesystem::is_directory(impl_->last_checkpoint, none) ? impl_->last_checkpoint : "";
}
std::vector<actors::RunAct> Trainer::timeline() { return impl_->whole_timeline(); }

}  // namespace boxcar::training
