// Prints the existing rows of the performance budget (docs/design.md, section 6): whole commands as a user
// runs them, with wall time, the simulator's own time and resident memory; then the simulator's events per
// second against bare SimGrid's. Nothing here fails on a time.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <string>
#include <vector>

namespace {

struct Row {
  const char* what;
  const char* target;
  std::vector<std::string> arguments;
};

const std::vector<std::string> gpt3{
    "simulate", "--json",          "--model=gpt3-175b", "--cluster=dgx-a100-80g", "--tp=8",
    "--pp=8",   "--micro-batch=1", "--precision=fp16",  "--recompute=full",       "--zero=1"};

std::vector<std::string> with(std::vector<std::string> arguments, const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

std::vector<Row> rows() {
  return {
      {"GPT-3 175B, 1,024 GPUs, folded", "1 s, 1 GiB", with(gpt3, {"--gpus=1024", "--global-batch=1536"})},
      {"the same with its timeline written", "1 s, 1 GiB",
       with(gpt3, {"--gpus=1024", "--global-batch=1536", "--trace=budget_bench_timeline.json"})},
      {"GPT-3 175B, 64 GPUs, 8 micro-batches", "0.5 s", with(gpt3, {"--gpus=64", "--global-batch=8"})},
      {"Llama-3 405B, 16,384 GPUs, folded",
       "5 s",
       {"simulate", "--json", "--model=llama3-405b", "--cluster=dgx-h100", "--gpus=16384", "--tp=8",
        "--pp=16", "--dp=128", "--micro-batch=1", "--global-batch=2048", "--precision=bf16",
        "--sequence-parallel=true", "--attention=flash", "--zero=1", "--recompute=full"}},
      {"GPT-3 175B, 1,024 GPUs, every rank", "120 s, 8 GiB",
       with(gpt3, {"--gpus=1024", "--global-batch=1536", "--no-fold"})},
  };
}

// Runs a program, optionally quietly; returns its exit code and resource use.
int run(const char* program, const std::vector<std::string>& arguments, bool quiet, double& seconds,
        double& megabytes) {
  auto start = std::chrono::steady_clock::now();
  std::fflush(stdout);  // otherwise the child prints it too
  pid_t child = fork();
  if (child == 0) {
    std::vector<char*> argv{const_cast<char*>(program)};
    for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    if (quiet && !std::freopen("/dev/null", "w", stdout)) _exit(126);
    execv(program, argv.data());
    _exit(127);
  }
  int status = 0;
  rusage usage{};
  wait4(child, &status, 0, &usage);
  seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  megabytes = static_cast<double>(usage.ru_maxrss) / 1024;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

// budget_bench [--short]: --short leaves out simulations of every rank.
int main(int argc, char** argv) {
  bool brief = argc > 1 && std::strcmp(argv[1], "--short") == 0;
  fmt::print("{:<40} {:>14} {:>10} {:>12}\n", "what", "target", "measured", "resident");
  for (const Row& row : rows()) {
    if (brief && row.arguments.back() == "--no-fold") continue;
    double seconds = 0, megabytes = 0;
    int code = run(BOXCAR_PROGRAM, row.arguments, true, seconds, megabytes);
    fmt::print("{:<40} {:>14} {:>8.2f} s {:>8.0f} MiB{}\n", row.what, row.target, seconds, megabytes,
               code == 0 ? "" : fmt::format("  exit {}", code));
  }
  std::remove("budget_bench_timeline.json");
  if (brief) return 0;
  double seconds = 0, megabytes = 0;
  fmt::print("\n");
  std::fflush(stdout);
  return run(SIMGRID_BENCH, {}, false, seconds, megabytes);
}
