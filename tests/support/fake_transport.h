// Processes as threads of this one, joined by queues: tests communication between processes without MPI.
//
//   FakeNetwork network(2, 7);                     // two processes; 7 seeds the order of deliveries
//   auto transport = network.transport(0);         // of process 0, once per process
//   network.fall_silent(1);                        // process 1 is no longer heard from
//
// Messages of one channel between two processes keep their order; the next of the waiting ones is drawn at
// random. Time passes only in fall_silent(): 15 seconds at once.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backends/peers.h"
#include "backends/transport.h"
#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::support {

class FakeNetwork {
  using Sent = std::array<std::atomic<int>, backends::channels>;  // by channel
  using Line = std::pair<int, backends::Channel>;                 // sender, channel
  struct Process {
    Process(int id, int processes) : peers(id, processes, silence) {}
    backends::Peers peers;
    std::mutex mutex;
    std::condition_variable changed;
    std::map<Line, std::deque<std::vector<std::byte>>> lines;  // never empty
    std::map<int, std::deque<std::string>> said;               // by sending process; not yet read
    bool silent = false, stopping = false;
  };

 public:
  static constexpr int silence = 15;

  FakeNetwork(int processes, unsigned seed) : seed_(seed) {
    for (int p = 0; p < processes; ++p) processes_.push_back(std::make_shared<Process>(p, processes));
  }

  std::unique_ptr<backends::Transport> transport(int process) const {
    return std::make_unique<FakeTransport>(processes_, sent_, process,
                                           seed_ + static_cast<unsigned>(process));
  }

  // Messages on a channel so far, of all processes.
  int sent(backends::Channel channel) const { return at(*sent_, channel); }

  // From here on no message of `process` arrives, and the others have waited past the limit.
  void fall_silent(int process) {
    {
      std::lock_guard lock(number(process).mutex);
      number(process).silent = true;
    }
    for (int p = 0; p < size(); ++p) {
      for (int second = 1; p != process && second <= silence; ++second) {
        number(p).peers.tick(second);
        for (int other = 0; other < size(); ++other) {
          if (other != process) number(p).peers.heard(other);
        }
      }
    }
  }

 private:
  class FakeTransport : public backends::Transport {
   public:
    FakeTransport(std::vector<std::shared_ptr<Process>> processes, std::shared_ptr<Sent> sent, int process,
                  unsigned seed)
        : processes_(std::move(processes)), sent_(std::move(sent)), process_(process), random_(seed) {}
    ~FakeTransport() override { stop(); }

    int process() const override { return process_; }
    int processes() const override { return static_cast<int>(processes_.size()); }
    std::vector<std::string> exchange(const std::string& text) override {
      for (const auto& process : processes_) {
        std::lock_guard lock(process->mutex);
        process->said[process_].push_back(text);
        process->changed.notify_all();
      }
      std::unique_lock lock(me().mutex);
      std::vector<std::string> texts;
      for (int p = 0; p < processes(); ++p) {
        std::deque<std::string>& said = me().said[p];
        me().changed.wait(lock, [&] { return !said.empty() || me().peers.any_failed(); });
        if (said.empty()) me().peers.check();
        texts.push_back(std::move(said.front()));
        said.pop_front();
      }
      return texts;
    }
    void listen(backends::Channel channel, Listener listener) override {
      Listener& place = at(listeners_, channel);
      if (place) throw Error::fault("transport", "one listener per channel");
      place = std::move(listener);
    }
    void start() override {
      progress_ = std::thread([this] { progress(); });
    }
    void send(int process, backends::Channel channel, std::span<const std::byte> bytes) override {
      {
        std::lock_guard lock(me().mutex);
        if (me().silent) return;
      }
      ++at(*sent_, channel);
      Process& to = number(process);
      std::lock_guard lock(to.mutex);
      to.lines[{process_, channel}].emplace_back(bytes.begin(), bytes.end());
      to.changed.notify_all();
    }
    void fail(const std::string& why) override {
      for (const auto& process : processes_) {
        process->peers.failed(process_, why);
        std::lock_guard lock(process->mutex);
        process->changed.notify_all();
      }
    }
    void check() const override { me().peers.check(); }
    void finish() override {
      for (const auto& process : processes_) {
        process->peers.done(process_);
        std::lock_guard lock(process->mutex);
        process->changed.notify_all();
      }
      {
        std::unique_lock lock(me().mutex);
        me().changed.wait(lock, [&] { return me().peers.all_done() || me().peers.any_failed(); });
      }
      stop();
      check();
    }

   private:
    Process& number(int process) const { return *at(processes_, process); }
    Process& me() const { return number(process_); }

    void progress() {
      std::unique_lock lock(me().mutex);
      for (;;) {
        me().changed.wait(lock, [&] { return me().stopping || !me().lines.empty(); });
        if (me().stopping) return;
        auto line = me().lines.begin();
        std::advance(line, std::uniform_int_distribution<size_t>(0, me().lines.size() - 1)(random_));
        const auto [from, channel] = line->first;
        const std::vector<std::byte> bytes = std::move(line->second.front());
        line->second.pop_front();
        if (line->second.empty()) me().lines.erase(line);
        lock.unlock();
        at(listeners_, channel)(from, bytes);
        lock.lock();
      }
    }
    void stop() {
      {
        std::lock_guard lock(me().mutex);
        me().stopping = true;
        me().changed.notify_all();
      }
      if (progress_.joinable()) progress_.join();
    }

    const std::vector<std::shared_ptr<Process>> processes_;
    const std::shared_ptr<Sent> sent_;
    const int process_;
    std::mt19937 random_;
    std::array<Listener, backends::channels> listeners_;
    std::thread progress_;
  };

  int size() const { return static_cast<int>(processes_.size()); }
  Process& number(int process) const { return *at(processes_, process); }

  std::vector<std::shared_ptr<Process>> processes_;
  const std::shared_ptr<Sent> sent_ = std::make_shared<Sent>();
  unsigned seed_;
};

}  // namespace boxcar::support
