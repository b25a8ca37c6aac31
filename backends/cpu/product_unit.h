// Products for one instruction set. Included by one product_ISA.cpp each, which is compiled with that set's
// flags and defines the bytes of a vector (BOXCAR_BYTES) and the rows of a tile (BOXCAR_ROWS).
//
// Everything here is of this file alone (no inline function of the standard library, no template with a
// linkage): the linker keeps one copy of those, and that of a wider unit would crash on a narrower processor.
//
// c is computed in tiles of BOXCAR_ROWS x 2 vectors that stay in registers while the tile walks down a block
// of kDepth rows of b. That block is copied before, in panels as wide as a tile, one row after the other: 8
// panels of 32 columns and 256 rows, 256 KiB, stay in the second cache while kRowBlock rows of a, 448 KiB
// there, walk past. a is read where it lies, an element at a time, unless it is transposed and large. What
// the tile adds to is asked for before it is summed up.
#pragma once

#include "backends/cpu/product.h"

namespace boxcar::backends::cpu {
namespace {

constexpr int64_t kDepth = 256, kPanels = 8, kRowBlock = 448;
constexpr int64_t kFar = 1024;  // bytes between neighbours in a row, of transposed matrices that are large

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

  // The same for a number of rows that is only known now, at most Rows.
  template <int Rows, int Vectors>
  static void some_rows(int64_t rows, const T* a, int64_t row_step, int64_t column_step, const T* panel,
                        int64_t panel_step, int64_t depth, T* c, int64_t c_step, bool add) {
    if constexpr (Rows > 0) {
      if (rows == Rows)
        return tile<Rows, Vectors>(a, row_step, column_step, panel, panel_step, depth, c, c_step, add);
      some_rows<Rows - 1, Vectors>(rows, a, row_step, column_step, panel, panel_step, depth, c, c_step, add);
    }
  }

  // A block of c: rows x columns (at most a panel's), from a's rows and a panel with zeros behind `columns`.
  static void column_of_tiles(const Matrix<const T>& a, const T* panel, int64_t panel_step, T* c,
                              int64_t c_step, int64_t columns, bool add) {
    T edge[BOXCAR_ROWS * kColumns];
    for (int64_t i = 0; i < a.rows; i += BOXCAR_ROWS) {
      const int64_t rows = least(BOXCAR_ROWS, a.rows - i);
      const T* from = a.data + i * a.row_step;
      T* to = c + i * c_step;
      if (columns == kColumns) {
        some_rows<BOXCAR_ROWS, 2>(rows, from, a.row_step, a.column_step, panel, panel_step, a.columns, to,
                                  c_step, add);
      } else if (columns == kWidth) {
        some_rows<BOXCAR_ROWS, 1>(rows, from, a.row_step, a.column_step, panel, panel_step, a.columns, to,
                                  c_step, add);
      } else {
        some_rows<BOXCAR_ROWS, 2>(rows, from, a.row_step, a.column_step, panel, panel_step, a.columns, edge,
                                  kColumns, false);
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t j = 0; j < columns; ++j)
            to[r * c_step + j] = (add ? to[r * c_step + j] : 0) + edge[r * kColumns + j];
      }
    }
  }

  // b, at most kDepth rows and kPanels panels of it, panel after panel.
  static void copy_panels(const Matrix<const T>& b, T* panels) {
    const bool far = b.column_step * static_cast<int64_t>(sizeof(T)) > kFar;
    const int64_t whole = b.columns / kColumns * kColumns;
    if (b.column_step == 1) {
      for (int64_t i = 0; i < b.rows; ++i) {
        const T* from = b.data + i * b.row_step;
        T* to = panels + i * kColumns;
        for (int64_t j = 0; j < whole; j += kColumns, to += b.rows * kColumns) {
          store(to, load(from + j));
          store(to + kWidth, load(from + j + kWidth));
        }
      }
    }
    for (int64_t j = b.column_step == 1 ? whole : 0; j < b.columns; ++j) {
      const T* from = b.data + j * b.column_step;
      T* to = panels + j / kColumns * b.rows * kColumns + j % kColumns;
      // One element at a time leaves few lines in flight: ask for those of the next but one.
      if (far && j + 2 < b.columns)
        for (int64_t i = 0; i < b.rows; i += kLine) __builtin_prefetch(from + 2 * b.column_step + i);
      for (int64_t i = 0; i < b.rows; ++i) to[i * kColumns] = from[i * b.row_step];
    }
    T* last = panels + whole * b.rows;
    for (int64_t j = b.columns - whole; j > 0 && j < kColumns; ++j)
      for (int64_t i = 0; i < b.rows; ++i) last[i * kColumns + j] = 0;
  }

  // Every panel of b[a.columns, columns] with all rows of a.
  static void all_panels(const Matrix<const T>& a, const T* panels, int64_t panel_step, int64_t next_panel,
                         T* c, int64_t c_step, int64_t columns, bool add) {
    for (int64_t j = 0; j < columns; j += kColumns, panels += next_panel)
      column_of_tiles(a, panels, panel_step, c + j, c_step, least(kColumns, columns - j), add);
  }

  // The same, where neighbours in a row of a are so far apart that the lines of a tile evict each other:
  // each tile's rows are copied together first.
  static void all_panels_by_tiles(const Matrix<const T>& a, const T* panels, int64_t panel_step,
                                  int64_t next_panel, T* c, int64_t c_step, int64_t columns, bool add) {
    alignas(64) T tile[kDepth * BOXCAR_ROWS];
    for (int64_t i = 0; i < a.rows; i += BOXCAR_ROWS) {
      const int64_t rows = least(BOXCAR_ROWS, a.rows - i);
      for (int64_t k = 0; k < a.columns; ++k) {
        const T* from = a.data + i * a.row_step + k * a.column_step;
        T* to = tile + k * BOXCAR_ROWS;
        if (rows == BOXCAR_ROWS)
          for (int64_t r = 0; r < BOXCAR_ROWS; ++r) to[r] = from[r * a.row_step];
        else
          for (int64_t r = 0; r < rows; ++r) to[r] = from[r * a.row_step];
      }
      all_panels({tile, rows, a.columns, 1, BOXCAR_ROWS}, panels, panel_step, next_panel, c + i * c_step,
                 c_step, columns, add);
    }
  }

  // c (+)= a b for a block of at most kDepth columns of a, and as many columns of b as panels hold.
  static void block(const Matrix<const T>& a, const Matrix<const T>& b, T* c, int64_t c_step, bool add) {
    alignas(64) T panels[kDepth * kPanels * kColumns];
    // One row of tiles would read a copy once: it reads b itself, but for columns short of a panel.
    const bool in_place = a.rows <= BOXCAR_ROWS && b.column_step == 1 && b.columns % kColumns == 0;
    if (!in_place) copy_panels(b, panels);
    const auto run =
        a.column_step * static_cast<int64_t>(sizeof(T)) > kFar ? all_panels_by_tiles : all_panels;
    if (in_place)
      run(a, b.data, b.row_step, kColumns, c, c_step, b.columns, add);
    else
      run(a, panels, kColumns, b.rows * kColumns, c, c_step, b.columns, add);
  }

  static void product(const Matrix<const T>& a, const Matrix<const T>& b, const Matrix<T>& c, bool add) {
    for (int64_t i = 0; i < c.rows && a.columns == 0 && !add; ++i)
      for (int64_t j = 0; j < c.columns; ++j) c.data[i * c.row_step + j] = 0;
    for (int64_t i = 0; i < a.rows; i += kRowBlock)
      for (int64_t k = 0; k < a.columns; k += kDepth)
        for (int64_t j = 0; j < b.columns; j += kPanels * kColumns) {
          const int64_t depth = least(kDepth, a.columns - k);
          block({a.data + i * a.row_step + k * a.column_step, least(kRowBlock, a.rows - i), depth, a.row_step,
                 a.column_step},
                {b.data + k * b.row_step + j * b.column_step, depth, least(kPanels * kColumns, b.columns - j),
                 b.row_step, b.column_step},
                c.data + i * c.row_step + j, c.row_step, add || k > 0);
        }
  }
};

}  // namespace
}  // namespace boxcar::backends::cpu
