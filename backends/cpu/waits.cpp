#include "backends/cpu/waits.h"

#include "sbp/error.h"

namespace boxcar::backends::cpu {

void Waits::abort(const std::string& why) {
  {
    std::lock_guard lock(mutex_);
    if (!why_.empty()) return;
    why_ = why;
  }
  if (!transport_) return;
  try {
    transport_->check();
  } catch (const Error&) {
    return;  // the reason is another process, of which the others know
  }
  transport_->fail(why);
}

void Waits::check(const std::string& whom) {
  try {
    {
      std::lock_guard lock(mutex_);
      if (!why_.empty()) throw Error::fault("", why_);
    }
    if (transport_) transport_->check();
  } catch (const Error& error) {
    throw Error::fault("waits for " + whom, error.what());
  }
}

}  // namespace boxcar::backends::cpu
