// The layout of a global tensor over devices: split, broadcast or partial, one for each mesh dimension.
//
//   S(0)            split along axis 0, in balanced parts
//   B               every device has the whole tensor
//   P(sum)          every device has a tensor of full shape; their element-wise sum is the global one
//   (S(0), B)       on a mesh of two dimensions (node, gpu): split between nodes, copied inside each
//   (S(0), S(0))    a split of a split: the inner mesh dimension splits what the outer one left
//   (S(0,inner), S(0))   the same axis split by the *second* mesh dimension first, and each of those parts
//                   by the first: how an optimizer shard lies inside a tensor-parallel part
//
// With several P, the inner ones reduce first. Beside entries that are not P, each set of partials (a fixed
// coordinate along the other dimensions) reduces to the tensor by itself. Two copies of a P may hold
// different partials.
//
// "P" is read as P(sum). Text reads back: parse_sbp(to_text(x)) == x. (Paper, section 3.1, Figure 4.)
#pragma once

#include <compare>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace boxcar::sbp {

using Shape = std::vector<int64_t>;

inline constexpr int max_axis = 127;          // limit of Sbp::axis
inline constexpr int max_device = 1'048'575;  // devices are numbered from 0

enum class Reduction : uint8_t { sum, max, min };
std::string to_text(Reduction reduction);  // "sum"

// One mesh dimension's share of a layout. A value; `axis` and `inner` are 0 unless kind is split,
// `reduction` is sum unless kind is partial, so defaulted comparison is meaningful.
struct Sbp {
  enum class Kind : uint8_t { broadcast, split, partial };
  Kind kind = Kind::broadcast;
  int8_t axis = 0;
  int8_t inner = 0;  // splits of one axis are applied in ascending (inner, mesh dimension)
  Reduction reduction = Reduction::sum;

  static constexpr Sbp B() { return {}; }
  static constexpr Sbp S(int axis, int inner = 0) {
    return {Kind::split, static_cast<int8_t>(axis), static_cast<int8_t>(inner), Reduction::sum};
  }
  static constexpr Sbp P(Reduction reduction = Reduction::sum) { return {Kind::partial, 0, 0, reduction}; }

  bool is_split() const { return kind == Kind::split; }
  bool is_broadcast() const { return kind == Kind::broadcast; }
  bool is_partial() const { return kind == Kind::partial; }
  friend auto operator<=>(const Sbp&, const Sbp&) = default;
};

// One Sbp per mesh dimension, outermost first.
using NdSbp = std::vector<Sbp>;

std::string to_text(Sbp sbp);               // "S(0)"
std::string to_text(const NdSbp& layout);   // "S(0)" for one dimension, "(S(0), B)" for more
Sbp parse_sbp(std::string_view text);       // throws Error (bad input) quoting the text and the allowed forms
NdSbp parse_nd_sbp(std::string_view text);  // "S(0)", "(S(0),B)"; spaces are free

// For each tensor axis, up to the last that is split: the mesh dimensions that split it, in the order of the
// splits.
//   split_order((S(1,inner), B, S(1))) == {{}, {2, 0}}
std::vector<std::vector<size_t>> split_order(const NdSbp& layout);

// The same layout with the smallest `inner` values that keep its meaning, so that equal layouts compare
// equal.
//   canonical((S(0,inner), B)) == (S(0), B)
NdSbp canonical(NdSbp layout);

// Throws Error (bad input) unless there is one entry for each mesh dimension and every split axis exists.
void check_layout(const Shape& shape, const NdSbp& layout, const Shape& mesh);

// A mesh of devices: its extents, outermost first, and the global ids of its devices in row-major order.
//
//   {{2, 4}, {0..7}}: device 5 is at coordinate (1, 1).
struct Placement {
  Shape mesh;
  std::vector<int> devices;

  static Placement line(int count, int first = 0);  // mesh {count}, devices first, first + 1, ...
  static Placement grid(Shape mesh, int first = 0);
  friend auto operator<=>(const Placement&, const Placement&) = default;
};
std::string to_text(const Placement& placement);  // "0-7:2x4", "0,2,5"
Placement parse_placement(std::string_view text);
Shape parse_mesh(std::string_view text);  // "2x4"
// Throws Error (bad input) if a device is listed twice or the mesh does not have one place per device.
void check_placement(const Placement& placement);

// The half-open range [begin, end) of part `index` of `parts` of an extent: the first extent % parts parts
// have one element more. Parts beyond the extent are empty, which is legal.
//   part_range(10, 4, 1) == {3, 6}
struct Range {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
  friend auto operator<=>(const Range&, const Range&) = default;
};
Range part_range(int64_t extent, int64_t parts, int64_t index);
int64_t volume(const std::vector<Range>& ranges);  // elements in a block of one range per axis

// Part of a tensor of `shape` under `layout` on the device at position `index` (row-major in `mesh`): one
// range per axis. B and P dimensions leave ranges whole.
std::vector<Range> local_ranges(const Shape& shape, const NdSbp& layout, const Shape& mesh, int64_t index);
Shape local_shape(const Shape& shape, const NdSbp& layout, const Shape& mesh, int64_t index);

}  // namespace boxcar::sbp
