#include "actors/bus.h"

namespace boxcar::actors {
namespace {

bool take(std::deque<Envelope>& queue, Envelope& envelope) {
  if (queue.empty()) return false;
  envelope = queue.front();
  queue.pop_front();
  return true;
}

}  // namespace

const char* to_text(Route route) {
  constexpr const char* names[] = {"local", "shared", "network"};
  return names[static_cast<int>(route)];
}

Route route(Address from, Address to) {
  if (from.node() != to.node()) return Route::network;
  return from.thread() == to.thread() ? Route::local : Route::shared;
}

Route Bus::send(Address from, const Envelope& envelope) {
  Route way = route(from, envelope.to);
  ++pending_;
  if (way == Route::network) {
    ++traffic_.network;
    network_[{from.node(), envelope.to.node()}].push_back(envelope);
    return way;
  }
  Queues& queues = threads_[{envelope.to.node(), envelope.to.thread()}];
  ++(way == Route::local ? traffic_.local : traffic_.shared);
  (way == Route::local ? queues.local : queues.shared).push_back(envelope);
  return way;
}

bool Bus::deliver(int from_node, int to_node) {
  auto link = network_.find({from_node, to_node});
  Envelope envelope;
  if (link == network_.end() || !take(link->second, envelope)) return false;
  threads_[{to_node, envelope.to.thread()}].shared.push_back(envelope);
  return true;
}

bool Bus::next(int node, int thread, Envelope& envelope) {
  auto queues = threads_.find({node, thread});
  if (queues == threads_.end()) return false;
  if (!take(queues->second.local, envelope) && !take(queues->second.shared, envelope)) return false;
  --pending_;
  return true;
}

}  // namespace boxcar::actors
