#include "actors/profile/host.h"

#include <unistd.h>

#include <chrono>
#include <fstream>
#include <thread>

namespace boxcar::profile {

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name") && line.find(": ") != std::string::npos)
      return line.substr(line.find(": ") + 2);
  return "a processor";
}

namespace {

// Busy and idle processor seconds of the system since its start, over all processors.
struct Spent {
  double busy = 0, idle = 0;
};
Spent spent() {
  std::ifstream file("/proc/stat");
  std::string cpu;
  Spent result;
  double user = 0, nice = 0, system = 0, idle = 0, waiting = 0, interrupts = 0, soft = 0, stolen = 0;
  file >> cpu >> user >> nice >> system >> idle >> waiting >> interrupts >> soft >> stolen;
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  if (file) result = {(user + nice + system + interrupts + soft + stolen) / ticks, (idle + waiting) / ticks};
  return result;
}

}  // namespace

double busy_processors() {
  const Spent before = spent();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const Spent after = spent();
  const double busy = after.busy - before.busy, all = busy + after.idle - before.idle;
  return all > 0 ? busy / all * std::thread::hardware_concurrency() : 0;
}

}  // namespace boxcar::profile
