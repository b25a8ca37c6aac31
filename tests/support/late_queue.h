// A queue whose calls only launch acts, as on a device with streams; its own thread runs them later, in
// order. An act that does not wait for a mark may read memory that is not written yet.
//
//   LateQueue queue(7);                       // 7 seeds how late
//   queue.put([] { ... });
//   other.wait(*queue.mark());
//   queue.finish();                           // throws any exception of an act
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include "backends/device.h"

namespace boxcar::support {

class LateQueue : public backends::Queue {
  struct Point {
    std::mutex mutex;
    std::condition_variable changed;
    bool passed = false;
  };
  struct LateMark : backends::Mark {
    bool passed() const override {
      const std::lock_guard lock(point->mutex);
      return point->passed;
    }
    std::shared_ptr<Point> point = std::make_shared<Point>();
  };

 public:
  explicit LateQueue(unsigned seed) : random_(seed), thread_([this] { carry_out(); }) {}
  ~LateQueue() override {
    put(nullptr);
    thread_.join();
  }
  void put(std::function<void()> act) {
    const std::lock_guard lock(mutex_);
    acts_.push_back(std::move(act));
    changed_.notify_all();
  }

  void copy(void* to, const void* from, const backends::Block& block) override {
    put([=] {
      for (int64_t row = 0; row < block.rows; ++row)
        std::memcpy(static_cast<std::byte*>(to) + row * block.to_stride,
                    static_cast<const std::byte*>(from) + row * block.from_stride,
                    static_cast<size_t>(block.bytes));
    });
  }
  void fill_zero(void* to, int64_t bytes) override {
    put([=] { std::memset(to, 0, static_cast<size_t>(bytes)); });
  }
  void finish() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return acts_.empty(); });
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }
  std::shared_ptr<const backends::Mark> mark() override {
    const auto mark = std::make_shared<LateMark>();
    put([point = mark->point] {
      const std::lock_guard lock(point->mutex);
      point->passed = true;
      point->changed.notify_all();
    });
    return mark;
  }
  void wait(const backends::Mark& mark) override {
    put([point = dynamic_cast<const LateMark&>(mark).point] {
      std::unique_lock lock(point->mutex);
      point->changed.wait(lock, [&] { return point->passed; });
    });
  }

 private:
  // An act stays in the queue until it is done.
  void carry_out() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return !acts_.empty(); });
      const std::function<void()> act = acts_.front();
      lock.unlock();
      if (!act) return;
      if (random_() % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random_() % 100));
      try {
        act();
      } catch (...) {
        const std::lock_guard guard(mutex_);
        if (!error_) error_ = std::current_exception();
      }
      lock.lock();
      acts_.pop_front();
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> acts_;
  std::exception_ptr error_;
  std::mt19937 random_;
  std::thread thread_;
};

}  // namespace boxcar::support
