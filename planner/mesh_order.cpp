#include "planner/mesh_order.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "sbp/error.h"
#include "sbp/words.h"

namespace boxcar::planner {
namespace {

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> items;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    items.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return items;
}

}  // namespace

MeshOrder parse_mesh_order(const std::string& text, const std::string& where) {
  const std::vector<std::string> items = split(text), all = words_of(MeshAxis());
  if (!std::is_permutation(items.begin(), items.end(), all.begin(), all.end()))
    throw Error::input(where, fmt::format("unknown order '{}' (give each of {} once, outermost first: ranks "
                                          "of the last lie beside each other)",
                                          text, fmt::join(all, ", ")));
  MeshOrder order;
  std::transform(items.begin(), items.end(), order.begin(),
                 [](const std::string& item) { return *parse_word<MeshAxis>(item); });
  return order;
}

std::string to_text(const MeshOrder& order) {
  std::vector<std::string> items;
  for (const MeshAxis axis : order) items.push_back(word(axis));
  return fmt::format("{}", fmt::join(items, ","));
}

}  // namespace boxcar::planner
