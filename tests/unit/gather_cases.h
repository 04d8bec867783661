// Lookups that every backend's kernels are compared by.
#pragma once

#include <numeric>
#include <string>
#include <vector>

#include "tests/unit/kernel_testing.h"

namespace act {

inline TestTensor Indices(const std::vector<int64_t>& dims, int64_t extent, unsigned seed,
                          DType dtype = DType::kInt64) {
  TestTensor t = Empty(dims, dtype);
  std::mt19937 engine(seed);
  std::uniform_int_distribution<int64_t> uniform(-extent, extent - 1);
  for (int64_t i = 0; i < t.elements(); ++i) {
    if (dtype == DType::kInt64)
      t.as<int64_t>()[i] = uniform(engine);
    else
      t.as<int32_t>()[i] = static_cast<int32_t>(uniform(engine));
  }
  return t;
}

inline TestTensor Flags(int64_t count) {
  TestTensor t = Empty({count}, DType::kBool);
  for (int64_t i = 0; i < count; ++i) t.as<uint8_t>()[i] = i % 3 != 1;
  return t;
}

struct Lookup {
  std::vector<int64_t> whole, index, part;
  int64_t axis = 0;
};

inline OpCase GatherCase(const Lookup& l, DType index = DType::kInt64) {
  OpCase c{"Gather", {}, {}, {Empty(l.part)}, {}, {}};
  c.inputs = {Random(l.whole, 1), Indices(l.index, l.whole[static_cast<size_t>(l.axis)], 2, index)};
  c.attrs.Set("axis", l.axis);
  return c;
}

inline OpCase ScatterCase(const Lookup& l, const std::string& reduction, bool into = false) {
  OpCase c{"Scatter", {}, {}, {Empty(l.whole)}, {}, {}};
  c.inputs = {Random(l.part, 1), Indices(l.index, l.whole[static_cast<size_t>(l.axis)], 2)};
  if (into) c.inputs.push_back(Random(l.whole, 3));
  c.attrs.Set("axis", l.axis);
  c.attrs.Set("reduction", reduction);
  return c;
}

// Large enough for several threads. The work is divided at outer axes, at columns or at targets.
inline const std::vector<Lookup> kLookups = {
    {{300, 70}, {900, 1}, {900, 70}},
    {{50, 700}, {200, 1}, {200, 700}},
    {{900}, {70000}, {70000}},
    {{12, 40, 30}, {12, 110, 1}, {12, 110, 30}, 1},
    {{12, 40, 30}, {1, 110, 1}, {12, 110, 30}, 1},
    {{700, 9}, {6000, 9}, {6000, 9}},
    {{700, 9}, {6000, 5}, {6000, 5}},
    {{3, 20, 1000}, {3, 20, 900}, {3, 20, 900}, 2},
    {{4, 0}, {3, 1}, {3, 0}},
    {{4, 3}, {0, 1}, {0, 3}},
    {{1}, {1}, {1}},
};

// Calls check(case): all lookups, with int32 indices and with flags.
template <class Check>
void ForGatherCases(const std::vector<Lookup>& lookups, Check check) {
  for (const Lookup& l : lookups) {
    OpCase c = GatherCase(l);
    check(c);
    c.inputs.push_back(Flags(l.part[static_cast<size_t>(l.axis)]));
    check(c);
    check(GatherCase(l, DType::kInt32));
  }
  for (const DType dtype : {DType::kInt64, DType::kUint8, DType::kFloat16}) {
    OpCase c = GatherCase({{5, 3}, {7, 1}, {7, 3}});
    c.inputs[0] = Empty({5, 3}, dtype);
    std::iota(c.inputs[0].as<char>(), c.inputs[0].as<char>() + c.inputs[0].bytes.size(), '\0');
    c.outputs = {Empty({7, 3}, dtype)};
    check(c);
  }
}

// Calls check(case): all lookups and reductions, with an operand that updates are written into, and with
// flags.
template <class Check>
void ForScatterCases(const std::vector<Lookup>& lookups, Check check) {
  for (const Lookup& l : lookups)
    for (const char* reduction : {"none", "add", "mul", "min", "max"})
      for (const bool into : {false, true}) {
        OpCase c = ScatterCase(l, reduction, into);
        check(c);
        if (!into) c.inputs.push_back(Absent());
        c.inputs.push_back(Flags(l.part[static_cast<size_t>(l.axis)]));
        check(c);
        if (!into) continue;
        c.in_place = {{0, 2}};
        check(c);
      }
}

}  // namespace act
