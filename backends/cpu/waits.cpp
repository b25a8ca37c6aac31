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
    return;  // the reason is another process, which the others know
  }
  transport_->fail(why);
}

void Waits::check(const std::string& whom) { check(whom, false); }
void Waits::check_with_others(const std::string& whom) { check(whom, true); }

void Waits::check(const std::string& whom, bool others) {
  const std::string waits = "waits for " + whom;
  {
    std::lock_guard lock(mutex_);
    if (!why_.empty()) throw Error::fault(waits, why_);
  }
  if (!transport_) return;
  try {
    transport_->check();
  } catch (const Error& error) {
    const std::string text = others ? transport_->waiting().text() : "";
    throw Error::fault(waits, error.what() + (text.empty() ? "" : "; " + text));
  }
}

}  // namespace boxcar::backends::cpu
