// The one connection between processes, which collectives, the message bus and pulls share. Messages are
// framed: a channel says who reads them, and between two processes the messages of a channel keep their
// order.
//
//   transport.listen(Channel::bus, [&](int from, std::span<const std::byte> bytes) { ... });
//   transport.send(1, Channel::bus, bytes);     // returns when `bytes` may be reused
//
// The runtime listens to bus (messages), request and data (pulls) and links (when pulls are sent), and starts
// the transport when all its communicators are there; control is the backend's own; results is for the
// runtime's caller.
//
// One progress thread per process calls the listeners; a listener must not wait for another message, but may
// send. Several threads may send at once. A process that has not been heard from for `silence` seconds while
// somebody waits, or one that says that it failed, ends the run: every wait throws Error (fault) naming the
// process and what waited.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/waiting.h"
#include "sbp/error.h"

namespace boxcar::backends {

enum class Channel : uint8_t { bus, data, request, links, control, results };
inline constexpr int channels = 6;

class Transport {
 public:
  using Listener = std::function<void(int from, std::span<const std::byte> bytes)>;
  virtual ~Transport() = default;
  virtual int process() const = 0;
  virtual int processes() const = 0;
  // Exchanges texts: every process gives one and gets all, by process. All processes call it the same number
  // of times, before start(). Waits for the slowest; throws Error (fault), as check() does, if one is gone.
  // Alone: `text`.
  virtual std::vector<std::string> exchange(const std::string& text) { return {text}; }
  // Before start(); once per channel.
  virtual void listen(Channel channel, Listener listener) = 0;
  virtual void start() = 0;
  virtual void send(int process, Channel channel, std::span<const std::byte> bytes) = 0;
  // Tells the others that this process gives up, and why; their waits end with it.
  virtual void fail(const std::string& why) = 0;
  // Throws Error (fault) once a process is gone, silent or has failed; waits call it now and then.
  virtual void check() const = 0;
  // Waits for all processes; no listener is called afterwards. Throws Error (fault), as check() does, if the
  // run has failed.
  virtual void finish() = 0;
  // Ends this process's part in a run that fails with `error`, and tells the others. Returns, in one process,
  // the error to report for the run; that process then exits. Alone: `error`.
  virtual Error agree(const Error& error) { return error; }
  // Waits of this process's threads.
  Waiting& waiting() { return waiting_; }

 private:
  Waiting waiting_;
};

}  // namespace boxcar::backends
