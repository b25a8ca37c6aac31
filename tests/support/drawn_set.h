// A set of numbers to draw from: adding, dropping and drawing the i-th take (nearly) constant time.
#pragma once

#include <unordered_map>
#include <vector>

namespace boxcar::support {

class DrawnSet {
 public:
  size_t size() const { return list_.size(); }
  int at(size_t i) const { return list_[i]; }  // in an order that depends only on earlier calls
  void add(int value) {
    if (place_.try_emplace(value, list_.size()).second) list_.push_back(value);
  }
  void drop(int value) {
    auto found = place_.find(value);
    if (found == place_.end()) return;
    list_[found->second] = list_.back();
    place_[list_.back()] = found->second;
    list_.pop_back();
    place_.erase(value);
  }

 private:
  std::vector<int> list_;
  std::unordered_map<int, size_t> place_;  // lookups only, never iterated
};

}  // namespace boxcar::support
