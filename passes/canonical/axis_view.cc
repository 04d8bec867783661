#include "passes/canonical/axis_view.h"

#include <algorithm>
#include <numeric>

namespace act {

Perm IdentityPerm(size_t rank) {
  Perm perm(rank);
  std::iota(perm.begin(), perm.end(), 0);
  return perm;
}

Perm Inverse(const Perm& perm) {
  Perm inverse(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) inverse[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
  return inverse;
}

bool KeepsOrder(const Dims& base, const Perm& perm) {
  int64_t last = -1;
  for (int64_t axis : perm) {
    if (base[static_cast<size_t>(axis)] == Dim(1)) continue;
    if (axis < last) return false;
    last = axis;
  }
  return true;
}

bool LastStays(const Perm& perm) { return perm.back() + 1 == static_cast<int64_t>(perm.size()); }

AxisView Transposed(const AxisView& view, const Perm& perm) {
  if (!view.Grouped()) return {view.base, Permute(view.perm, perm), {}};
  std::vector<Perm> axes;
  auto at = view.perm.begin();
  for (size_t count : view.groups) {
    axes.emplace_back(at, at + static_cast<std::ptrdiff_t>(count));
    at += static_cast<std::ptrdiff_t>(count);
  }
  AxisView result{view.base, {}, Permute(view.groups, perm)};
  for (const Perm& group : Permute(axes, perm))
    result.perm.insert(result.perm.end(), group.begin(), group.end());
  return result;
}

namespace {

// A reshape of a view as pieces of base axes, in the order of the value. Each axis of the result
// consists of some of them, or of none if its extent is 1.
struct Piece {
  size_t axis;  // of the base
  Dim extent;
};
struct Regrouped {
  std::vector<Piece> pieces;
  std::vector<size_t> groups;
};

int64_t Groups(const Regrouped& r) {
  return std::count_if(r.groups.begin(), r.groups.end(), [](size_t pieces) { return pieces > 1; });
}

// Splits the axes (in the order of the value) into pieces that make up the axes of `to`.
std::optional<Regrouped> Regroup(const std::vector<Piece>& axes, const Dims& to) {
  Regrouped result;
  size_t at = 0;
  Dim left(1);  // of axes[at]
  for (const Dim& extent : to) {
    size_t count = 0;
    for (Dim want = extent; want != Dim(1); ++count) {
      if (left == Dim(1)) {
        if (at == axes.size()) return std::nullopt;
        left = axes[at++].extent;
      }
      Dim piece;
      if (const auto more = DivideExact(want, left)) {
        piece = left;
        want = *more;
        left = Dim(1);
      } else if (const auto rest = DivideExact(left, want)) {
        piece = want;
        want = Dim(1);
        left = *rest;
      } else {
        return std::nullopt;
      }
      result.pieces.push_back({axes[at - 1].axis, piece});
    }
    result.groups.push_back(count);
  }
  if (left != Dim(1) || at != axes.size()) return std::nullopt;
  return result;
}

// Whether base axis b comes right after a, not counting axes of extent 1.
bool Follows(const Dims& base, size_t a, size_t b) {
  if (b <= a) return false;
  for (size_t i = a + 1; i < b; ++i)
    if (base[i] != Dim(1)) return false;
  return true;
}

}  // namespace

std::optional<ReshapedBase> Reshaped(const AxisView& view, const Dims& base, const Dims& to) {
  // Axes of the base. In `runs`, axes that are neighbours in both the base and the value are one.
  std::vector<Piece> axes, runs;
  for (int64_t axis : view.perm) {
    const auto i = static_cast<size_t>(axis);
    if (base[i] == Dim(1)) continue;
    if (base[i] == Dim(0)) return std::nullopt;
    axes.push_back({i, base[i]});
  }
  for (size_t i = 0; i < axes.size(); ++i) {
    if (i > 0 && Follows(base, axes[i - 1].axis, axes[i].axis))
      runs.back().extent = runs.back().extent * axes[i].extent;
    else
      runs.push_back(axes[i]);
  }
  auto regrouped = Regroup(axes, to);
  if (!regrouped || Groups(*regrouped) > 0)
    if (auto of_runs = Regroup(runs, to)) regrouped = of_runs;
  // Only the rows of features may be a group, and only one axis. Other values (windows of an image,
  // a flattened image) are moved once where they are written out here, and what is computed from
  // them need not be moved.
  if (!regrouped || Groups(*regrouped) > 1 || (!to.empty() && regrouped->groups.back() > 1))
    return std::nullopt;
  // The pieces in the order of the base, after the result's axes of extent 1.
  std::vector<size_t> order(regrouped->pieces.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return regrouped->pieces[a].axis < regrouped->pieces[b].axis; });
  const auto ones = static_cast<size_t>(std::count(to.begin(), to.end(), Dim(1)));
  Dims dims(ones, Dim(1));
  Perm place(order.size());
  for (size_t i : order) {
    place[i] = static_cast<int64_t>(dims.size());
    dims.push_back(regrouped->pieces[i].extent);
  }
  ReshapedBase result{std::move(dims), {}, {}};
  int64_t one = 0;
  for (size_t i = 0, at = 0; i < to.size(); ++i) {
    result.groups.push_back(std::max<size_t>(regrouped->groups[i], 1));
    if (regrouped->groups[i] == 0) result.perm.push_back(one++);
    for (size_t k = 0; k < regrouped->groups[i]; ++k) result.perm.push_back(place[at++]);
  }
  if (Groups(*regrouped) == 0) result.groups.clear();
  return result;
}

}  // namespace act
