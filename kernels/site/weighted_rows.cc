#include "kernels/site/resize_shape.h"

namespace act {

WeightedRows Identity(int64_t extent) {
  WeightedRows m{.columns = extent};
  for (int64_t i = 0; i < extent; ++i) {
    m.terms.push_back({i, 1});
    m.EndRow();
  }
  return m;
}

WeightedRows Transposed(const WeightedRows& m) {
  WeightedRows t{.columns = m.rows()};
  t.terms.resize(m.terms.size());
  // Counts the terms of each column, then puts them after those of the columns before.
  t.ends.assign(static_cast<size_t>(m.columns), 0);
  for (const WeightedRows::Term& term : m.terms) ++t.ends[static_cast<size_t>(term.at)];
  int64_t before = 0;
  for (int64_t& end : t.ends) {
    const int64_t count = end;
    end = before;
    before += count;
  }
  for (int64_t r = 0; r < m.rows(); ++r)
    for (const WeightedRows::Term& term : m.Row(r))
      t.terms[static_cast<size_t>(t.ends[static_cast<size_t>(term.at)]++)] = {r, term.weight};
  return t;
}

WeightedRows Joined(const WeightedRows& outer, const WeightedRows& inner) {
  WeightedRows m{.columns = outer.columns * inner.columns};
  m.terms.reserve(outer.terms.size() * inner.terms.size());
  for (int64_t o = 0; o < outer.rows(); ++o)
    for (int64_t i = 0; i < inner.rows(); ++i) {
      for (const WeightedRows::Term& a : outer.Row(o))
        for (const WeightedRows::Term& b : inner.Row(i))
          m.terms.push_back({a.at * inner.columns + b.at, a.weight * b.weight});
      m.EndRow();
    }
  return m;
}

PlaneRows PlaneRowsOf(const ResizeShape& shape, bool backward) {
  const auto rows = [&](size_t a) { return backward ? Transposed(shape.axes[a]) : shape.axes[a]; };
  PlaneRows plane{Identity(1), {}};
  if (shape.axes.empty()) return plane;
  for (size_t a = 0; a + 1 < shape.axes.size(); ++a)
    plane.outer = a == 0 ? rows(a) : Joined(plane.outer, rows(a));
  plane.inner = rows(shape.axes.size() - 1);
  return plane;
}

}  // namespace act
