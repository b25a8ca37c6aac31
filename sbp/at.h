// Elements by signed index. Ranks, dimensions, actors and registers have signed numbers, but the standard
// library's sequences have unsigned indices. This does the conversion.
//
//   at(shape, dim) *= parts;       // int64_t dim
//   ++at(bytes, Memory::device);   // an enum by the number of its value
//
// Not checked in a release build, like operator[].
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
