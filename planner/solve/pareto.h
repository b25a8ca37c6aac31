// Rows that no other row beats: the Pareto front.
//
//   pareto_front({{1, 9}, {2, 5}, {3, 7}, {2, 5}})   // {0, 1, 3}: {2, 5} beats {3, 7}
//
// A row beats another that is nowhere better and somewhere worse. Equal rows do not beat each other.
#pragma once

#include <cstddef>
#include <vector>

namespace boxcar::search {

// Indices of the front, ascending. All rows have the same number of finite values. Less is better. Time: rows
// times the size of the front.
std::vector<size_t> pareto_front(const std::vector<std::vector<double>>& rows);

}  // namespace boxcar::search
