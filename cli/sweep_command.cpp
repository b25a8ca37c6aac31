#include "cli/sweep_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "cli/arguments.h"
#include "cli/output.h"
#include "cli/quantities.h"
#include "cli/sweep/point_run.h"
#include "cli/sweep/points.h"
#include "cli/sweep/runs_format.h"
#include "sbp/error.h"
#include "sim/sweep/ranks.h"
#include "sim/sweep/sweep.h"

namespace boxcar::cli {
namespace {

using SweepClock = std::chrono::steady_clock;

struct SweepArguments {
  JobArguments job;
  std::string out;
  int workers = 0;
  std::optional<double> price;
};

// A sweep whose points have names: equal points are one run.
struct Named {
  Sweep sweep;
  std::vector<sweep::Point> points;
  std::set<std::string> keys = {};  // of all points
};

volatile std::sig_atomic_t ended_by = 0;
void end_sweep(int signal) { ended_by = signal; }

// SIGINT and SIGTERM end the work, with all finished rows written, and then the program.
class Interruption {
 public:
  Interruption() {
    struct sigaction action {};
    action.sa_handler = end_sweep;  // without SA_RESTART: poll returns at once
    sigaction(SIGINT, &action, &before_[0]);
    sigaction(SIGTERM, &action, &before_[1]);
  }
  ~Interruption() {
    sigaction(SIGINT, &before_[0], nullptr);
    sigaction(SIGTERM, &before_[1], nullptr);
  }
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

 private:
  struct sigaction before_[2] = {};
};

std::string sweep_file(const SweepArguments& a) {
  const std::vector<std::string> files = a.job.files();
  if (files.empty()) throw Error::input("SWEEP.yaml", "missing; `boxcar sweep --help` says more");
  if (files.size() > 1)
    throw Error::input(files[1], fmt::format("one sweep at a time; {} was given too", files[0]));
  return files[0];
}

// Flags are part of what a file of runs keeps.
std::string with_flags(std::string text, const GivenKeys& flags, std::optional<double> price) {
  if (!text.empty() && text.back() != '\n' && (!flags.empty() || price)) text += '\n';
  for (const auto& [path, value] : flags) text += fmt::format("# {} {}\n", value.where, value.text);
  return price ? text + fmt::format("# --price {}\n", *price) : text;
}

// The sweep of a file and of the flags beside it.
Sweep sweep_of(const SweepArguments& a, const std::string& text, const std::string& path,
               const GivenKeys& flags) {
  Sweep sweep = parse_sweep(text, path, flags);
  if (a.price) sweep.price = a.price;
  return sweep;
}

// Reads every point's keys, which takes a ms or so each.
Named named(Sweep sweep, Progress& progress) {
  Named all{std::move(sweep), {}};
  PointRunner runner(all.sweep);
  std::optional<std::string> refused;
  bool all_alike = true;
  const int64_t count = all.sweep.count();
  for (int64_t i = 0; i < count; ++i) {
    if (i % 64 == 0) progress.part(fmt::format("reading point {} of {}", i + 1, count));
    Identity who = runner.identity(all.sweep.at(i));
    if (i == 0) refused = who.refused;
    all_alike = all_alike && !who.refused.empty() && who.refused == *refused;
    all.keys.insert(who.key);
    all.points.push_back({std::move(who.key), all.sweep.group_of(i)});
  }
  if (all_alike) throw Error::input("", *refused);
  return all;
}

std::string time_left(SweepClock::time_point begin, int64_t done, int64_t all) {
  if (done == 0) return "";
  const double passed = std::chrono::duration<double>(SweepClock::now() - begin).count();
  return fmt::format(", {} left", duration_text(std::max(1.0, passed * static_cast<double>(all - done) /
                                                                  static_cast<double>(done))));
}

// Runs points by number; each process has its own copy.
sweep::PointWork work_on(const Sweep& sweep) {
  const auto runner = std::make_shared<PointRunner>(sweep);
  return [runner, &sweep](int64_t number) { return runner->run(sweep.at(number)); };
}

// `door`: of other ranks; null: there are none.
sweep::Ended run_points(const SweepArguments& a, const Named& named, sweep::RunsWriter& writer,
                        sweep::Door* door, Progress& progress) {
  const int usual = door ? 1 : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  const SweepClock::time_point begin = SweepClock::now();
  return sweep::run_points(named.points, writer,
                           {.here = a.workers > 0 ? a.workers : usual, .door = door, .tell = tell},
                           work_on(named.sweep), [&](const sweep::Progressed& now) {
                             progress.part(fmt::format("{} of {} points{}", now.ended, now.all,
                                                       time_left(begin, now.ended, now.all)));
                             return ended_by == 0;
                           });
}

// Columns of keys and constants that have several values.
std::vector<std::string> axis_columns(const Sweep& sweep) {
  std::vector<std::string> names;
  for (const SweepAxis& axis : sweep.axes) {
    if (axis.values.size() < 2) continue;
    names.push_back(axis.constant ? sweep::what_if_column(axis.name) : sweep_name(key_at(axis.name)));
  }
  return names;
}

// Counts of the sweep's points by their end, whoever ran them.
struct Counts {
  int64_t rows = 0, simulated = 0, no_fit = 0, refused = 0;
};

Counts counts_of(const std::string& path, const Named& named) {
  Counts counts;
  for (const auto& row : read_rows(path, {.columns = {"key", "status"}}).rows) {
    if (!named.keys.contains(row[0].get<std::string>())) continue;
    ++counts.rows;
    ++(row[1] == "simulated" ? counts.simulated : row[1] == "refused" ? counts.refused : counts.no_fit);
  }
  return counts;
}

std::string summary(const std::string& path, const Named& named, const sweep::Ended& done,
                    const Counts& counts) {
  const auto different = static_cast<int64_t>(named.keys.size());
  const int64_t equal = static_cast<int64_t>(named.points.size()) - different;
  std::string text = fmt::format("{}: {}, {} run now, {} there before", path, counted(different, "point"),
                                 done.run, counts.rows - done.run);
  if (equal > 0) text += fmt::format("; {} more resolve to the same", equal);
  return text + fmt::format("\n  {} simulated, {} without enough memory, {} refused\n", counts.simulated,
                            counts.no_fit, counts.refused);
}

// Runs a rank that is not the first.
void run_for_another(const SweepArguments& a, const sweep::Launch& launch, const std::string& path,
                     const GivenKeys& flags) {
  Sweep sweep;
  const auto worker_of = [&](const std::string& text) {
    sweep = sweep_of(a, text, path, flags);
    return sweep::answering(work_on(sweep));
  };
  sweep::join(a.out, launch, runs_format().program(),
              {.workers = std::max(1, a.workers), .worker_of = worker_of, .tell = tell});
}

void run_sweep(const SweepArguments& a, Extent extent) {
  const TellOnce once;
  std::optional<Progress> progress(std::in_place);
  const std::string path = sweep_file(a), text = read_file(path);
  const GivenKeys flags = a.job.given("");
  check_apart({{"SWEEP.yaml", path}, {"--output", a.out}});
  if (!sweep::has_sqlite()) sweep::RunsWriter(a.out, runs_format(), "");  // reports it before any work
  const sweep::Launch launch = extent == Extent::whole ? sweep::started_together() : sweep::Launch{};
  if (launch.rank > 0) return run_for_another(a, launch, path, flags);
  std::optional<Interruption> interruption(std::in_place);
  std::optional<sweep::Meeting> meeting;
  if (launch.size > 1) meeting.emplace(a.out, launch, runs_format().program(), text);
  const Named points = named(sweep_of(a, text, path, flags), *progress);
  if (extent == Extent::reading) return;
  sweep::Ended done;
  {
    check_writable(a.out);
    sweep::RunsWriter writer(a.out, runs_format(), with_flags(text, flags, a.price),
                             axis_columns(points.sweep), tell);
    done = run_points(a, points, writer, meeting ? &meeting->door() : nullptr, *progress);
    if (ended_by != 0 && meeting) meeting->expect_no_more();
    meeting.reset();
  }
  interruption.reset();
  progress.reset();
  const Counts counts = counts_of(a.out, points);
  if (ended_by != 0) {
    tell(fmt::format("{}: interrupted; {} of {} points have rows, and the same command runs the others",
                     a.out, counts.rows, points.keys.size()));
    std::signal(ended_by, SIG_DFL);  // a shell starts programs behind `&` with SIGINT ignored
    std::raise(ended_by);            // ends the program as the signal does
  }
  print(summary(a.out, points, done, counts));
  if (!done.faults.empty())
    throw Error::fault(
        fmt::format("point {}", done.faults.front().number),
        fmt::format("{} ({} without a row for a fault; the same command runs {} again)",
                    done.faults.front().fault, counted(static_cast<int64_t>(done.faults.size()), "point"),
                    done.faults.size() == 1 ? "it" : "them"));
  if (counts.simulated == 0)
    throw Error::cannot_run(
        "", fmt::format("no point can be run; `boxcar table {} --columns point,why_not` says why", a.out));
}

}  // namespace

void add_sweep_command(CLI::App& app, Extent extent) {
  CLI::App* command = app.add_subcommand("sweep", "simulate or search every combination of a job's values");
  auto arguments = std::make_shared<SweepArguments>();
  arguments->job.add_to(*command);
  command
      ->add_option("-o,--output,--out", arguments->out,
                   "the file of runs, an SQLite database, which a later run goes on with")
      ->type_name("FILE")
      ->required()
      ->check(not_empty());
  command
      ->add_option(
          "--workers", arguments->workers,
          "processes that run points [one a core; of ranks of mpirun or srun, one each]; what they find "
          "is the same")
      ->type_name("1..1024")
      ->check(whole_number(1, 1024));
  command
      ->add_option("--price", arguments->price,
                   "dollars per GPU and hour, for dollars_per_step [price of SWEEP.yaml, else "
                   "price_per_gpu_hour of the cluster file]")
      ->type_name("2.50")
      ->check(number(0, 1e6));
  command->footer(
      "SWEEP.yaml is given first. Flags override it: a value, a range (8..64 x2) or numbers with commas. See "
      "docs/sweep.md.");
  command->callback([arguments, extent] { run_sweep(*arguments, extent); });
}

}  // namespace boxcar::cli
