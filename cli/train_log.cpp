#include "cli/train_log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/output.h"
#include "cli/quantities.h"
#include "ir/units.h"

namespace boxcar::cli {
namespace {

using nlohmann::ordered_json;

// A path may be any bytes.
std::string text_of(const ordered_json& document) {
  return document.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

double rate(double count, double seconds) { return seconds > 0 ? count / seconds : 0; }

}  // namespace

std::string format_duration(double seconds) {
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string loss_chart(const std::vector<std::pair<int64_t, double>>& losses, int width, int height) {
  if (losses.size() < 2) return "";
  width = std::min(width, static_cast<int>(losses.size()));
  std::vector<double> columns;  // means of the losses that fall into each
  for (int c = 0; c < width; ++c) {
    const size_t begin = losses.size() * static_cast<size_t>(c) / static_cast<size_t>(width);
    const size_t end = losses.size() * static_cast<size_t>(c + 1) / static_cast<size_t>(width);
    double sum = 0;
    for (size_t i = begin; i < end; ++i) sum += losses[i].second;
    columns.push_back(sum / static_cast<double>(end - begin));
  }
  const auto [low, high] = std::minmax_element(columns.begin(), columns.end());
  const double least = *low, span = std::max(*high - *low, 1e-12);
  std::string text;
  for (int row = height - 1; row >= 0; --row) {
    std::string line;
    for (double value : columns)
      line += std::lround((value - least) / span * (height - 1)) == row ? '*' : ' ';
    line.erase(line.find_last_not_of(' ') + 1);
    const bool labelled = row == height - 1 || row == 0;
    text += fmt::format("{:>8} |{}\n",
                        labelled ? fmt::format("{:.3f}", least + span * row / (height - 1)) : "", line);
  }
  const std::string last = fmt::format("{}", losses.back().first);
  const std::string first = fmt::format("{}", losses.front().first);
  const auto gap = static_cast<int>(first.size() + last.size());
  return text + fmt::format("{:>8}  {}{}{}\n", "step", first,
                            std::string(static_cast<size_t>(std::max(1, width - gap)), ' '), last);
}

TrainLog::TrainLog(Setup setup) : setup_(std::move(setup)), terminal_(isatty(STDERR_FILENO) != 0) {}

void TrainLog::line(const std::string& text) {
  if (setup_.quiet) return;
  if (bar_shown_) std::fputs("\r\033[K", stderr);
  bar_shown_ = false;
  print(text + "\n");
}

void TrainLog::start() {
  if (!setup_.json) {
    line(fmt::format(
        "training {}{} parameters on {} device{} in {} process{}: {} a step; {} per device "
        "at most",
        setup_.trained < setup_.parameters ? fmt::format("{} of ", setup_.trained) : "", setup_.parameters,
        setup_.devices, setup_.devices == 1 ? "" : "s", setup_.processes, setup_.processes == 1 ? "" : "es",
        setup_.tokens_per_step == 0
            ? fmt::format("{} {}", setup_.samples_per_step, setup_.samples)
            : fmt::format("{} samples, {} tokens", setup_.samples_per_step, setup_.tokens_per_step),
        ir::format_bytes(
            static_cast<double>(*std::max_element(setup_.arena_bytes.begin(), setup_.arena_bytes.end())))));
    return;
  }
  ordered_json j;
  j["schema_version"] = 1;
  j["event"] = "start";
  j["configuration"] = setup_.configuration;
  j["parameters"] = setup_.parameters;
  j["trained_parameters"] = setup_.trained;
  j["devices"] = setup_.devices;
  j["processes"] = setup_.processes;
  j["samples_per_step"] = setup_.samples_per_step;
  j["tokens_per_step"] = setup_.tokens_per_step;
  j["peak_memory_bytes"] = setup_.arena_bytes;
  line(text_of(j));
}

void TrainLog::resumed(int64_t step, const std::string& path) {
  setup_.first_step = step;
  if (!setup_.json && step == 0)
    return line(fmt::format("no checkpoint in {} yet: from the beginning", path));
  if (!setup_.json) return line(fmt::format("going on from {}, step {}", path, step));
  line(text_of({{"event", "resumed"}, {"step", step}, {"path", path}}));
}

// "1234 tokens/s"; for samples without tokens "56 images/s".
std::string TrainLog::speed(double steps, double seconds) const {
  const bool text = setup_.tokens_per_step > 0;
  return fmt::format(
      "{:.0f} {}/s",
      rate(steps * static_cast<double>(text ? setup_.tokens_per_step : setup_.samples_per_step), seconds),
      text ? "tokens" : setup_.samples);
}

void TrainLog::bar(const training::StepRecord& r) {
  if (!terminal_ || setup_.json || setup_.quiet) return;
  constexpr int width = 24;
  const auto done = static_cast<int>(width * r.step / std::max<int64_t>(setup_.steps, 1));
  const auto steps = static_cast<double>(losses_.steps());
  const double left = seconds_ / steps * static_cast<double>(setup_.steps - r.step);
  std::fprintf(
      stderr, "\r\033[K%s",
      fmt::format("[{}{}] {}/{}  loss {:.4f}  {}  {} left", std::string(static_cast<size_t>(done), '#'),
                  std::string(static_cast<size_t>(width - done), '.'), r.step, setup_.steps, r.loss,
                  speed(steps, seconds_), format_duration(left))
          .c_str());
  std::fflush(stderr);
  bar_shown_ = true;
}

void TrainLog::step(const training::StepRecord& r) {
  losses_.add(r.step, r.loss);
  seconds_ += r.seconds;
  const double tokens = rate(static_cast<double>(setup_.tokens_per_step), r.seconds);
  if (setup_.json) {
    line(text_of({{"event", "step"},
                  {"step", r.step},
                  {"loss", r.loss},
                  {"learning_rate", r.learning_rate},
                  {"step_time_s", r.seconds},
                  {"samples", r.step * setup_.samples_per_step},
                  {"tokens_per_s", tokens}}));
  } else if (r.step % setup_.log_every == 0 || r.step == setup_.steps) {
    line(fmt::format("step {:>{}}/{}  loss {:.4f}  learning rate {:.3g}  {}", r.step,
                     std::to_string(setup_.steps).size(), setup_.steps, r.loss, r.learning_rate,
                     speed(1, r.seconds)));
  }
  bar(r);
}

void TrainLog::validation(int64_t step, double loss) {
  if (!setup_.json) return line(fmt::format("validation after step {}: loss {:.4f}", step, loss));
  line(text_of({{"event", "validation"}, {"step", step}, {"loss", loss}}));
}

void TrainLog::checkpoint(int64_t step, const std::string& path) {
  if (!setup_.json) return line(fmt::format("checkpoint {}", path));
  line(text_of({{"event", "checkpoint"}, {"step", step}, {"path", path}}));
}

void TrainLog::end(const training::RunEnd& run) {
  const double tokens =
      rate(static_cast<double>(losses_.steps()) * static_cast<double>(setup_.tokens_per_step), seconds_);
  if (setup_.json) {
    ordered_json j{{"event", "end"},
                   {"step", std::max(setup_.first_step, setup_.steps)},
                   {"wall_s", run.wall_seconds},
                   {"tokens_per_s", tokens}};
    if (losses_.steps() > 0) j["loss"] = losses_.last();
    if (run.skipped_steps > 0) j["skipped_steps"] = run.skipped_steps;
    for (const auto& [held, peak] : run.memory) {
      if (peak == 0) continue;
      j["peak_memory_bytes"].push_back(peak);
      j["held_memory_bytes"].push_back(held);
    }
    return line(text_of(j));
  }
  if (losses_.steps() == 0) return line("nothing left to do: all steps were done before");
  const std::string chart = loss_chart(losses_.points());
  if (!chart.empty()) line("\n" + chart);
  line(fmt::format("{} in {}: loss {:.4f} -> {:.4f}, {}", counted(losses_.steps(), "step"),
                   format_duration(run.wall_seconds), losses_.first(), losses_.last(),
                   speed(static_cast<double>(losses_.steps()), seconds_)));
  if (run.skipped_steps > 0)
    line(
        fmt::format("{} of these steps changed no weight, since their gradients overflowed in 16 bits (use "
                    "precision bf16, or scale the loss down)",
                    run.skipped_steps));
}

}  // namespace boxcar::cli
