// The progress of `boxcar train`, for people and programs: a line per step, or with --json one JSON document
// per line ("event": start, step, validation, checkpoint, end). Throws Error (fault) if standard output takes
// no more.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "actors/training/loss_curve.h"
#include "actors/training/run_listener.h"

namespace boxcar::cli {

class TrainLog : public training::RunListener {
 public:
  struct Setup {
    bool json = false;
    bool quiet = false;  // processes other than the first
    int64_t steps = 0, log_every = 1;
    int64_t samples_per_step = 0, tokens_per_step = 0;
    const char* samples = "images";  // if they have no tokens
    std::map<std::string, std::string> configuration;
    int64_t parameters = 0, trained = 0, devices = 0, processes = 1;
    int64_t first_step = 0;            // steps done before this run
    std::vector<int64_t> arena_bytes;  // by device
  };
  explicit TrainLog(Setup setup);

  void start();
  void step(const training::StepRecord& record) override;
  void validation(int64_t step, double loss) override;
  void checkpoint(int64_t step, const std::string& path) override;
  // `resumed` says from where the run continues.
  void resumed(int64_t step, const std::string& path);
  void end(const training::RunEnd& run) override;

 private:
  void line(const std::string& text);
  std::string speed(double steps, double seconds) const;
  void bar(const training::StepRecord& record);

  Setup setup_;
  bool terminal_ = false, bar_shown_ = false;
  training::LossCurve losses_;
  double seconds_ = 0;  // of all steps seen
};

// A chart of a loss over steps, `height` lines of text; "" for fewer than two points.
//
//   5.53 |*
//        | **
//   3.10 |   ****
//         1      100
std::string loss_chart(const std::vector<std::pair<int64_t, double>>& losses, int width = 64,
                       int height = 10);

// "1:02:05", "2:05", "5 s"
std::string format_duration(double seconds);

}  // namespace boxcar::cli
