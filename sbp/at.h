// Elements by signed index. Ranks, dimensions, actors and registers are counted in signed numbers, and the
// standard library's sequences in unsigned ones: the conversion stands here.
//
//   at(shape, dim) *= parts;       // int64_t dim
//   ++at(bytes, Memory::device);   // an enum counts its values
//
// Not checked in a release build, as operator[].
#pragma once

#include <concepts>
#include <cstddef>
#include <type_traits>
#include <utility>

namespace boxcar {

template <typename Sequence, typename Index>
requires std::integral<Index> || std::is_enum_v<Index>
constexpr decltype(auto) at(Sequence&& sequence, Index index) {
  return std::forward<Sequence>(sequence)[static_cast<size_t>(index)];
}

}  // namespace boxcar
