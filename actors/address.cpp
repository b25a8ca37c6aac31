#include "actors/address.h"

#include <fmt/format.h>

#include <array>

#include "sbp/error.h"

namespace boxcar::actors {
namespace {

struct Field {
  const char* name;
  int width, shift;
};
constexpr std::array<Field, 4> fields{
    {{"node", 17, 47}, {"thread", 11, 36}, {"queue", 12, 24}, {"actor", 24, 0}}};

int get(uint64_t bits, const Field& field) {
  return static_cast<int>(bits >> field.shift & ((uint64_t{1} << field.width) - 1));
}

uint64_t put(int value, const Field& field) {
  int64_t limit = int64_t{1} << field.width;
  if (value < 0 || value >= limit) {
    throw Error::input(fmt::format("address: {}", field.name),
                       fmt::format("{}, at most {}", value, limit - 1));
  }
  return static_cast<uint64_t>(value) << field.shift;
}

}  // namespace

Address Address::make(int node, int thread, int queue, int actor) {
  return {put(node, fields[0]) | put(thread, fields[1]) | put(queue, fields[2]) | put(actor, fields[3])};
}
int Address::node() const { return get(bits, fields[0]); }
int Address::thread() const { return get(bits, fields[1]); }
int Address::queue() const { return get(bits, fields[2]); }
int Address::actor() const { return get(bits, fields[3]); }

std::string to_text(Address address) {
  return fmt::format("{}.{}.{}.{}", address.node(), address.thread(), address.queue(), address.actor());
}

}  // namespace boxcar::actors
