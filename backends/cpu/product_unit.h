// Products for one instruction set. Each product_ISA.cpp includes it, is compiled with that set's flags, and
// defines the bytes of a vector (BOXCAR_BYTES) and the rows of a tile (BOXCAR_ROWS).
//
// Everything here is local to the file (no inline function of the standard library, no template with
// linkage). The linker keeps one copy of such functions, and a wider unit's copy would crash on a narrower
// processor.
//
// c is computed in tiles of BOXCAR_ROWS x 2 vectors that stay in registers while the tile walks down a block
// of kDepth rows and kWide columns of b. The block is first copied, once for all rows of a, in panels as wide
// as a tile, row after row: 768 KiB of floats, which stay in the second-level cache. A tile's rows of a, 18
// KiB, stay in the first-level cache while the panels pass. They are read in place, an element at a time. If
// neighbours in a row are so far apart that their lines evict each other, they are first copied together. A
// tile's elements of c are prefetched before its sums.
#pragma once

#include "backends/cpu/product.h"

namespace boxcar::backends::cpu {
namespace {

constexpr int64_t kDepth = 384, kWide = 512;
constexpr int64_t kFar = 1024;  // bytes between neighbours in a row, of transposed matrices that are large
constexpr int64_t kHigh = 64;   // rows of a panel that are copied together: 8 KiB of floats

inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

template <class T>
struct Tiles {
  typedef T Vector __attribute__((vector_size(BOXCAR_BYTES), aligned(alignof(T)), may_alias));
  static constexpr int kWidth = BOXCAR_BYTES / sizeof(T);
  static constexpr int64_t kColumns = 2 * kWidth;   // of a panel
  static constexpr int64_t kLine = 64 / sizeof(T);  // elements of a line of the cache

  static Vector load(const T* from) { return *reinterpret_cast<const Vector*>(from); }
  static void store(T* to, Vector x) { *reinterpret_cast<Vector*>(to) = x; }

  // c[Rows, Vectors] (+)= a[Rows, depth] panel[depth, Vectors]; rows of the panel are `panel_step` apart.
  template <int Rows, int Vectors>
  static void tile(const T* a, int64_t row_step, int64_t column_step, const T* panel, int64_t panel_step,
                   int64_t depth, T* c, int64_t c_step, bool add) {
    Vector sums[Rows][Vectors];
    for (int r = 0; r < Rows; ++r)
      for (int v = 0; v < Vectors; ++v) {
        sums[r][v] = Vector{};
        __builtin_prefetch(c + r * c_step + v * kWidth, 1);
      }
    for (int64_t k = 0; k < depth; ++k, panel += panel_step, a += column_step) {
      Vector b[Vectors];
      for (int v = 0; v < Vectors; ++v) b[v] = load(panel + v * kWidth);
#pragma GCC unroll 16
      for (int r = 0; r < Rows; ++r) {
        const T factor = a[r * row_step];
#pragma GCC unroll 2
        for (int v = 0; v < Vectors; ++v) sums[r][v] += factor * b[v];
      }
    }
    for (int r = 0; r < Rows; ++r)
      for (int v = 0; v < Vectors; ++v) {
        T* to = c + r * c_step + v * kWidth;
        store(to, add ? load(to) + sums[r][v] : sums[r][v]);
      }
  }

  // The same for a number of rows known only at run time, at most Rows.
  template <int Rows, int Vectors>
  static void some_rows(int64_t rows, const T* a, int64_t row_step, int64_t column_step, const T* panel,
                        int64_t panel_step, int64_t depth, T* c, int64_t c_step, bool add) {
    if constexpr (Rows > 0) {
      if (rows == Rows)
        return tile<Rows, Vectors>(a, row_step, column_step, panel, panel_step, depth, c, c_step, add);
      some_rows<Rows - 1, Vectors>(rows, a, row_step, column_step, panel, panel_step, depth, c, c_step, add);
    }
  }

  // A tile of c of at most BOXCAR_ROWS rows and a panel's columns. The panel has zeros behind `columns`.
  static void tile_of_any(const Matrix<const T>& a, const T* panel, int64_t panel_step, T* c, int64_t c_step,
                          int64_t columns, bool add) {
    if (columns == kColumns)
      return some_rows<BOXCAR_ROWS, 2>(a.rows, a.data, a.row_step, a.column_step, panel, panel_step,
                                       a.columns, c, c_step, add);
    if (columns == kWidth)
      return some_rows<BOXCAR_ROWS, 1>(a.rows, a.data, a.row_step, a.column_step, panel, panel_step,
                                       a.columns, c, c_step, add);
    T edge[BOXCAR_ROWS * kColumns];
    some_rows<BOXCAR_ROWS, 2>(a.rows, a.data, a.row_step, a.column_step, panel, panel_step, a.columns, edge,
                              kColumns, false);
    for (int64_t r = 0; r < a.rows; ++r)
      for (int64_t j = 0; j < columns; ++j)
        c[r * c_step + j] = (add ? c[r * c_step + j] : 0) + edge[r * kColumns + j];
  }

  // b, at most kDepth rows and kWide columns of it, panel after panel.
  static void copy_panels(const Matrix<const T>& b, T* panels) {
    for (int64_t j = 0; j < b.columns; j += kColumns, panels += b.rows * kColumns) {
      const T* from = b.data + j * b.column_step;
      const int64_t columns = least(kColumns, b.columns - j);
      if (b.column_step == 1 && columns == kColumns)
        for (int64_t i = 0; i < b.rows; ++i)
          for (int64_t v = 0; v < 2; ++v)
            store(panels + i * kColumns + v * kWidth, load(from + i * b.row_step + v * kWidth));
      else
        copy_panel({from, b.rows, columns, b.row_step, b.column_step}, panels);
    }
  }

  // The same for one panel, element by element, with zeros behind `columns`.
  static void copy_panel(const Matrix<const T>& b, T* panel) {
    for (int64_t i = 0; i < b.rows; i += kHigh) {
      const int64_t end = least(i + kHigh, b.rows);
      for (int64_t j = 0; j < b.columns; ++j) {
        const T* from = b.data + j * b.column_step;
        for (int64_t k = i; k < end; ++k) panel[k * kColumns + j] = from[k * b.row_step];
      }
      for (int64_t j = b.columns; j < kColumns; ++j)
        for (int64_t k = i; k < end; ++k) panel[k * kColumns + j] = 0;
    }
  }

  // A tile's rows of a, at most kDepth columns: column after column.
  static void copy_tile(const Matrix<const T>& a, T* tile) {
    const T* from = a.data;
    for (int64_t k = 0; k < a.columns; ++k, from += a.column_step, tile += BOXCAR_ROWS) {
      if (a.rows == BOXCAR_ROWS && a.row_step == 1)
        for (int64_t r = 0; r < BOXCAR_ROWS; ++r) tile[r] = from[r];
      else
        for (int64_t r = 0; r < a.rows; ++r) tile[r] = from[r * a.row_step];
    }
  }

  // c (+)= a b for kDepth columns of a at most, and a block of b in panels.
  static void block(const Matrix<const T>& a, const T* panels, int64_t panel_step, int64_t next_panel, T* c,
                    int64_t c_step, int64_t columns, bool add) {
    const bool far = a.column_step * static_cast<int64_t>(sizeof(T)) > kFar;
    alignas(64) T copy[kDepth * BOXCAR_ROWS];
    for (int64_t i = 0; i < a.rows; i += BOXCAR_ROWS, c += BOXCAR_ROWS * c_step) {
      Matrix<const T> rows = {a.data + i * a.row_step, least(BOXCAR_ROWS, a.rows - i), a.columns, a.row_step,
                              a.column_step};
      if (far) {
        copy_tile(rows, copy);
        rows = {copy, rows.rows, rows.columns, 1, BOXCAR_ROWS};
      }
      const T* panel = panels;
      for (int64_t j = 0; j < columns; j += kColumns, panel += next_panel)
        tile_of_any(rows, panel, panel_step, c + j, c_step, least(kColumns, columns - j), add);
    }
  }

  static void product(const Matrix<const T>& a, const Matrix<const T>& b, const Matrix<T>& c, bool add) {
    for (int64_t i = 0; i < c.rows && a.columns == 0 && !add; ++i)
      for (int64_t j = 0; j < c.columns; ++j) c.data[i * c.row_step + j] = 0;
    alignas(64) T panels[kDepth * kWide];
    for (int64_t j = 0; j < b.columns; j += kWide)
      for (int64_t k = 0; k < a.columns; k += kDepth) {
        const int64_t depth = least(kDepth, a.columns - k), columns = least(kWide, b.columns - j);
        const Matrix<const T> part = {b.data + k * b.row_step + j * b.column_step, depth, columns, b.row_step,
                                      b.column_step};
        // A single row of tiles would read a copy only once: it reads b itself, except for columns short of a
        // panel.
        const bool in_place = a.rows <= BOXCAR_ROWS && b.column_step == 1 && columns % kColumns == 0;
        if (!in_place) copy_panels(part, panels);
        block({a.data + k * a.column_step, a.rows, depth, a.row_step, a.column_step},
              in_place ? part.data : panels, in_place ? b.row_step : kColumns,
              in_place ? kColumns : depth * kColumns, c.data + j, c.row_step, columns, add || k > 0);
      }
  }
};

}  // namespace
}  // namespace boxcar::backends::cpu
