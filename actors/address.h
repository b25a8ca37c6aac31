// 64-bit actor addresses: node, thread, queue, actor (Figure 8 of the paper).
//
//   | node 17 | thread 11 | queue 12 | actor 24 |      131,072 nodes, 16.7 million actors on each queue
//
// Routing needs only the receiver's address: node and thread are read from its bits. Comparing addresses
// orders them by node, thread, queue, actor.
//
//   Address::make(3, 0, 2, 17): to_text "3.0.2.17", bits 3 << 47 | 0 << 36 | 2 << 24 | 17
#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace boxcar::actors {

struct Address {
  uint64_t bits = 0;
  static Address make(int node, int thread, int queue,
                      int actor);  // throws Error (bad input) if a field overflows
  int node() const;
  int thread() const;
  int queue() const;
  int actor() const;
  friend auto operator<=>(const Address&, const Address&) = default;
};
std::string to_text(Address address);  // "3.0.2.17"

}  // namespace boxcar::actors
