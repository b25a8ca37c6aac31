// Attributes that differ between the ranks of a class. A plan's actor has the attributes of the class's first
// rank. It also has the difference of each attribute that differs along a mesh dimension. A rank's coordinate
// is its place in its group of the communicator of that name:
//
//   offset=0, offset_step_tp=16               coordinate k on tp has 0 + 16 k
//   offset=0, offset_by_tp=[0, 4, 7, 10]      coordinate k has the k-th (uneven parts)
//   starts=[0, 0], starts_step_dp=[2, 0], starts_step_tp=[0, 3]
//
// The dimension "rank" is the place among the devices of the class. Lists differ by element; texts (the
// program of a fused op) differ by the whole numbers in them.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ir/types.h"

namespace boxcar::ir {

// The whole numbers of an attribute, in order; none for doubles and booleans.
//   "dropout(2) {p=0.1, starts=[0, 3]}" -> 2, 0, 3
std::vector<int64_t> whole_numbers(const Attr& attr);
// The attribute with its whole numbers replaced by `numbers`, which are as many as whole_numbers finds.
Attr with_whole_numbers(const Attr& attr, const std::vector<int64_t>& numbers);

// Adds to `attrs` how `name` differs along `dim`, given all attributes at every coordinate. Adds nothing if
// it does not differ. Throws Error (fault) naming an attribute that differs in more than its whole numbers,
// as the text cannot express that.
void add_difference(Attrs& attrs, const std::string& name, const std::string& dim,
                    const std::vector<Attrs>& at);

// Coordinates of a rank and of the first rank of its class along a mesh dimension.
struct Coordinates {
  int64_t own = 0, first = 0;
};
// The attribute that a difference changes: "offset" for "offset_step_tp" and "offset_by_tp". Any other name
// is returned as it is.
std::string_view changed_attr(std::string_view name);
// The dimensions along which they differ.
std::set<std::string> differing_dims(const Attrs& attrs);
// The attributes of one rank, without the differences. Throws Error (bad input) if a difference has no
// attribute, has too few numbers for it, or overflows 64 bits.
Attrs rank_attrs(const Attrs& attrs, const std::function<Coordinates(const std::string& dim)>& at);

}  // namespace boxcar::ir
