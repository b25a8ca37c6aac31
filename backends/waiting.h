// Waits of threads, for the last message of a run that is ended from outside.
//
//   Waiting::Act act("device 3: h0.attn.proj.all_reduce");    // this thread's act, while `act` lives
//   Waiting::Entry entry(transport.waiting(), "process 1");   // by a wait that takes long, while it does
//   transport.waiting().text() == "device 3: h0.attn.proj.all_reduce waits for process 1"
//   Waiting::here() == "device 3: h0.attn.proj.all_reduce"
//
// From any thread. An act costs a few stores; only long waits make entries.
#pragma once

#include <list>
#include <mutex>
#include <string>
#include <string_view>

namespace boxcar::backends {

class Waiting {
 public:
  // The calling thread's act. `name` outlives it. Acts nest: "outer: inner".
  class Act {
   public:
    explicit Act(std::string_view name);
    ~Act();
    Act(const Act&) = delete;
    Act& operator=(const Act&) = delete;

   private:
    friend class Waiting;
    const std::string_view name_;
    const Act* const outer_;
  };
  // The calling thread's acts, outermost first; empty if it is in none.
  static std::string here();

  class Entry {
   public:
    Entry(Waiting& waiting, const std::string& whom);
    ~Entry();
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

   private:
    Waiting& waiting_;
    std::list<std::string>::iterator line_;
  };

  // "ACT waits for WHOM" for each thread, "; " between them, the earliest first; empty if nobody waits.
  std::string text() const;

 private:
  mutable std::mutex mutex_;
  std::list<std::string> lines_;
};

}  // namespace boxcar::backends
