// Random numbers, extents and operands for nodes of random shapes.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <random>
#include <vector>

#include "tests/unit/bfloat16_cases.h"
#include "tests/unit/exact_numbers.h"

namespace act::random_shapes {

class Draw {
 public:
  explicit Draw(unsigned seed) : engine_(seed) {}

  int64_t Between(int64_t least, int64_t most) {
    return least + static_cast<int64_t>(engine_() % static_cast<uint64_t>(most - least + 1));
  }
  bool Percent(int64_t of_100) { return Between(0, 99) < of_100; }
  bool Coin() { return Percent(50); }
  template <class T>
  T Of(std::initializer_list<T> values) {
    return values.begin()[Between(0, static_cast<int64_t>(values.size()) - 1)];
  }
  // Whole vectors, one element more and less, and mostly 1.
  int64_t Extent() { return Of<int64_t>({1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 3, 3, 5, 5, 7, 8, 16, 17, 33}); }
  int64_t Batch() { return Percent(4) ? 0 : Percent(60) ? 1 : Of<int64_t>({2, 3, 5}); }
  // Of at most so many elements; rarely one axis is long, and rarely the first is empty.
  Ints Extents(int64_t rank, int64_t most_elements = 20000) {
    Ints dims;
    do {
      dims.clear();
      for (int64_t d = 0; d < rank; ++d) dims.push_back(Extent());
      if (rank > 0 && Percent(5)) dims[Axis(rank)] = Of<int64_t>({65, 130, 1025});
    } while (ElementCount(dims) > most_elements);
    if (rank > 0 && Percent(3)) dims[0] = 0;
    return dims;
  }
  size_t Axis(int64_t rank) { return static_cast<size_t>(Between(0, rank - 1)); }
  unsigned Seed() { return static_cast<unsigned>(engine_()); }

 private:
  std::mt19937 engine_;
};

struct RandomCase {
  OpCase c;
  double tolerance = 0;
  double least_scale = 0;                 // of CompareWithReference
  std::optional<BothTypes> rounded = {};  // the same in float32 and in bfloat16
};

inline DType FloatType(Draw& draw) { return draw.Coin() ? DType::kFloat32 : DType::kBFloat16; }

// Operands of products become whole numbers: then all kernels make the same sums in any order, in either
// type.
inline TestTensor Whole(const TestTensor& t, Draw& draw, DType dtype = DType::kFloat32) {
  const TestTensor whole = Integers(t.dims, draw.Seed());
  return dtype == DType::kBFloat16 ? Narrow(whole) : whole;
}

// In both types, for the half of all cases: kernels of bfloat16 are then compared with themselves in float32.
inline RandomCase InEitherType(Draw& draw, const OpCase& c, double tolerance, double least_scale = 0) {
  RandomCase r{c, tolerance, least_scale};
  if (!draw.Coin()) return r;
  r.rounded = InBothTypes(c);
  r.c = r.rounded->wide;
  return r;
}

}  // namespace act::random_shapes
