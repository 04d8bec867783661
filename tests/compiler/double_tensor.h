// Plain tensors in double precision, with which the tests' independent evaluators compute. They are
// slow and obvious.
#pragma once

#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

namespace act::truth {

using Ints = std::vector<int64_t>;

inline int64_t Count(const Ints& dims) {
  return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
}

// Row-major.
struct Tensor {
  Ints dims;
  std::vector<double> data;

  explicit Tensor(Ints d = {}, double fill = 0)
      : dims(std::move(d)), data(static_cast<size_t>(Count(dims)), fill) {}
  size_t rank() const { return dims.size(); }
  int64_t dim(size_t axis) const { return dims[axis]; }

  double& at(const Ints& index) { return data[Offset(index)]; }
  double at(const Ints& index) const { return data[Offset(index)]; }
  // The element that a result of higher rank or larger extents reads at `index`, by
  // numpy's broadcasting.
  double Broadcast(const Ints& index) const {
    Ints own(rank());
    for (size_t i = 0; i < rank(); ++i) own[i] = dims[i] == 1 ? 0 : index[index.size() - rank() + i];
    return at(own);
  }

 private:
  size_t Offset(const Ints& index) const {
    int64_t offset = 0;
    for (size_t i = 0; i < rank(); ++i) offset = offset * dims[i] + index[i];
    return static_cast<size_t>(offset);
  }
};

// Calls f(index) for every index below `dims`. The last axis changes fastest.
template <class F>
void ForEach(const Ints& dims, F f) {
  Ints index(dims.size(), 0);
  for (int64_t n = Count(dims); n > 0; --n) {
    f(static_cast<const Ints&>(index));
    for (size_t i = dims.size(); i-- > 0;) {
      if (++index[i] < dims[i]) break;
      index[i] = 0;
    }
  }
}

// The tensor whose element at `index` is f(index).
template <class F>
Tensor Make(const Ints& dims, F f) {
  Tensor t(dims);
  size_t next = 0;
  ForEach(dims, [&](const Ints& index) { t.data[next++] = f(index); });
  return t;
}

inline Ints BroadcastDims(const std::vector<Tensor>& operands) {
  Ints dims;
  for (const Tensor& t : operands) {
    if (t.rank() > dims.size()) dims.insert(dims.begin(), t.rank() - dims.size(), 1);
    for (size_t i = 0; i < t.rank(); ++i) {
      int64_t& d = dims[dims.size() - t.rank() + i];
      if (d == 1) d = t.dims[i];
    }
  }
  return dims;
}

inline Tensor Map(const Tensor& x, const std::function<double(double)>& f) {
  Tensor y = x;
  for (double& v : y.data) v = f(v);
  return y;
}

inline Tensor Map(const Tensor& a, const Tensor& b, const std::function<double(double, double)>& f) {
  return Make(BroadcastDims({a, b}), [&](const Ints& i) { return f(a.Broadcast(i), b.Broadcast(i)); });
}

inline Tensor Reshape(Tensor x, Ints dims) {
  x.dims = std::move(dims);
  return x;
}

inline Tensor Transpose(const Tensor& x, const Ints& perm) {
  Ints dims;
  for (int64_t p : perm) dims.push_back(x.dim(static_cast<size_t>(p)));
  return Make(dims, [&](const Ints& y) {
    Ints from(y.size());
    for (size_t i = 0; i < y.size(); ++i) from[static_cast<size_t>(perm[i])] = y[i];
    return x.at(from);
  });
}

}  // namespace act::truth
