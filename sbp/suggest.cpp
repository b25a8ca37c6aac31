#include "sbp/suggest.h"

#include <algorithm>
#include <cctype>

namespace boxcar {
namespace {

// Optimal string alignment distance: insertions, deletions, replacements and swaps of neighbours.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t replace = d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, replace});
      bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

}  // namespace

std::string nearest(std::string_view given, const std::vector<std::string>& known) {
  if (given.size() > 100) return {};
  const std::string name = lower(given);
  std::string best;
  size_t least = name.size() / 2 + 1;
  for (const std::string& candidate : known) {
    const std::string other = lower(candidate);
    bool begins = name.size() >= 3 && other != name && other.starts_with(name);
    const size_t apart = std::max(name.size(), other.size()) - std::min(name.size(), other.size());
    if (!begins && apart >= least) continue;  // the distance is at least this
    size_t d = begins ? 1 : distance(name, other);
    if (d < least) {
      least = d;
      best = candidate;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& known) {
  std::string found = nearest(name, known);
  return found.empty() ? "" : " (did you mean " + found + "?)";
}

}  // namespace boxcar
