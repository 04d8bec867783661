// Attention and its gradient in the forms that its kernels tell apart.
#pragma once

#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/unit/bfloat16_cases.h"
#include "tests/unit/kernel_testing.h"

namespace act::attention_cases {

using Ints = std::vector<int64_t>;

// In logical order; perm -1: axes as they are, else [N,T,H,D].
struct Form {
  const char* name;
  Ints q, k, v;
  bool heads_second = false;
  Ints bias = {}, mask = {};
  bool causal = false;
  int64_t offset = 0;
  std::optional<int64_t> window = {};  // its offset
  double softcap = 0, dropout = 0;
  std::string empty_row = "nan";
  bool hidden_gradient = false;
  bool bias_gradient = true;
};

inline Ints Stored(const Form& f, Ints dims) {
  if (f.heads_second) std::swap(dims[1], dims[2]);
  return dims;
}

inline TestTensor Mask(Ints dims, unsigned seed) {
  TestTensor t = Empty(std::move(dims), DType::kBool);
  std::mt19937 engine(seed);
  for (int64_t i = 0; i < t.elements(); ++i) t.as<uint8_t>()[i] = engine() % 3 != 0;
  return t;
}

inline OpCase Forward(const Form& f) {
  Ints o = f.q;
  o.back() = f.v.back();
  OpCase c{"Attention",
           {},
           {Random(Stored(f, f.q), 1), Random(Stored(f, f.k), 2), Random(Stored(f, f.v), 3)},
           {Empty(Stored(f, o))},
           {},
           {.seed = 5, .step = 3}};
  c.inputs.push_back(f.bias.empty() ? Absent() : Random(f.bias, 4));
  if (!f.mask.empty()) c.inputs.push_back(Mask(f.mask, 5));
  c.attrs.Set("scale", .3);
  c.attrs.Set("causal", int64_t{f.causal});
  c.attrs.Set("causal_offset", f.offset);
  c.attrs.Set("window", int64_t{f.window.has_value()});
  c.attrs.Set("window_offset", f.window.value_or(0));
  c.attrs.Set("softcap", f.softcap);
  c.attrs.Set("probability", f.dropout);
  if (f.dropout > 0) c.first_sample = 2;
  c.attrs.Set("stream", int64_t{2});
  c.attrs.Set("empty_row", f.empty_row);
  c.attrs.Set("hidden_gradient", int64_t{f.hidden_gradient});
  if (f.heads_second)
    for (const char* perm : {"perm_q", "perm_k", "perm_v", "perm_o"}) c.attrs.Set(perm, Ints{0, 2, 1, 3});
  return c;
}

inline OpCase Gradient(const Form& f) {
  OpCase c = Forward(f);
  c.op = "AttentionGrad";
  c.inputs.insert(c.inputs.begin(), Random(c.outputs[0].dims, 6));
  c.outputs = {Empty(c.inputs[1].dims), Empty(c.inputs[2].dims), Empty(c.inputs[3].dims)};
  if (!f.bias.empty() && f.bias_gradient) c.outputs.push_back(Empty(f.bias));
  return c;
}

// One product [N,T,3,H,D] makes q, k and v; its gradient is the only result.
inline OpCase PackedGradient() {
  const Ints heads = {2, 3, 130, 8};
  OpCase c = Gradient({.name = "", .q = heads, .k = heads, .v = heads, .heads_second = true});
  c.attrs.Set("packed", int64_t{2});
  const TestTensor qkv = Random({2, 130, 3, 3, 8}, 7);
  for (size_t i = 1; i < 4; ++i) c.inputs[i] = qkv;
  c.outputs = {Empty(qkv.dims)};
  return c;
}

inline const Form kForms[] = {
    {.name = "one block", .q = {2, 3, 17, 16}, .k = {2, 3, 17, 16}, .v = {2, 3, 17, 16}},
    {.name = "[N,T,H,D]", .q = {2, 3, 65, 20}, .k = {2, 3, 33, 20}, .v = {2, 3, 33, 7}, .heads_second = true},
    {.name = "many blocks and panels", .q = {1, 2, 131, 70}, .k = {1, 2, 197, 70}, .v = {1, 2, 197, 66}},
    {.name = "long sums", .q = {1, 1, 7, 150}, .k = {1, 1, 300, 150}, .v = {1, 1, 300, 3}},
    {.name = "causal", .q = {2, 2, 130, 8}, .k = {2, 2, 130, 8}, .v = {2, 2, 130, 8}, .causal = true},
    {.name = "causal, past keys",
     .q = {1, 2, 70, 8},
     .k = {1, 2, 90, 8},
     .v = {1, 2, 90, 8},
     .causal = true,
     .offset = 20},
    {.name = "grouped", .q = {2, 6, 19, 8}, .k = {2, 2, 21, 8}, .v = {2, 2, 21, 8}, .bias = {6, 19, 21}},
    {.name = "bias of a head", .q = {40, 3, 9, 8}, .k = {40, 3, 9, 8}, .v = {40, 3, 9, 8}, .bias = {3, 9, 9}},
    {.name = "bias of all", .q = {5, 3, 9, 8}, .k = {5, 3, 9, 8}, .v = {5, 3, 9, 8}, .bias = {9, 9}},
    {.name = "bias of keys",
     .q = {3, 2, 9, 8},
     .k = {3, 2, 12, 8},
     .v = {3, 2, 12, 8},
     .bias = {3, 1, 1, 12}},
    {.name = "bias of queries, without gradient",
     .q = {3, 2, 9, 8},
     .k = {3, 2, 12, 8},
     .v = {3, 2, 12, 8},
     .bias = {9, 1},
     .bias_gradient = false},
    {.name = "mask", .q = {3, 2, 9, 8}, .k = {3, 2, 40, 8}, .v = {3, 2, 40, 8}, .mask = {3, 1, 9, 40}},
    {.name = "mask of queries, mean",
     .q = {3, 2, 9, 8},
     .k = {3, 2, 40, 8},
     .v = {3, 2, 40, 8},
     .mask = {3, 1, 9, 1},
     .empty_row = "mean"},
    {.name = "mask of queries, zero",
     .q = {3, 2, 9, 8},
     .k = {3, 2, 40, 8},
     .v = {3, 2, 40, 8},
     .mask = {3, 1, 9, 1},
     .empty_row = "zero"},
    {.name = "mask of queries, nan",
     .q = {3, 2, 9, 8},
     .k = {3, 2, 40, 8},
     .v = {3, 2, 40, 8},
     .mask = {3, 1, 9, 1}},
    {.name = "causal mask, mean, with gradient",
     .q = {2, 2, 70, 8},
     .k = {2, 2, 70, 8},
     .v = {2, 2, 70, 8},
     .mask = {2, 1, 70, 1},
     .causal = true,
     .empty_row = "mean",
     .hidden_gradient = true},
    {.name = "causal, first queries see nothing",
     .q = {1, 2, 70, 8},
     .k = {1, 2, 70, 8},
     .v = {1, 2, 70, 8},
     .causal = true,
     .offset = -5,
     .empty_row = "zero"},
    {.name = "window",
     .q = {2, 2, 200, 8},
     .k = {2, 2, 200, 8},
     .v = {2, 2, 200, 8},
     .causal = true,
     .window = -9},
    {.name = "window on both sides, past keys",
     .q = {1, 2, 130, 8},
     .k = {1, 2, 300, 8},
     .v = {1, 2, 300, 8},
     .causal = true,
     .offset = 130,
     .window = 70},
    {.name = "window without causal",
     .q = {2, 2, 70, 8},
     .k = {2, 1, 90, 8},
     .v = {2, 1, 90, 8},
     .window = 5},
    {.name = "window, bias, mask, cap, dropout",
     .q = {2, 3, 220, 8},
     .k = {2, 3, 220, 8},
     .v = {2, 3, 220, 5},
     .bias = {3, 1, 220},
     .mask = {2, 1, 1, 220},
     .causal = true,
     .window = -40,
     .softcap = .7,
     .dropout = .3,
     .empty_row = "zero"},
    {.name = "window and padding, mean",
     .q = {2, 2, 200, 8},
     .k = {2, 2, 200, 8},
     .v = {2, 2, 200, 8},
     .mask = {2, 1, 1, 200},
     .causal = true,
     .window = -20,
     .empty_row = "mean",
     .hidden_gradient = true},
    {.name = "window, some queries see nothing",
     .q = {1, 2, 200, 8},
     .k = {1, 2, 40, 8},
     .v = {1, 2, 40, 8},
     .window = 20,
     .empty_row = "zero"},
    {.name = "window, some queries see nothing, mean",
     .q = {1, 2, 200, 8},
     .k = {1, 2, 40, 8},
     .v = {1, 2, 40, 8},
     .window = 20,
     .empty_row = "mean"},
    {.name = "window, some queries see nothing, nan",
     .q = {1, 1, 300, 8},
     .k = {1, 1, 128, 8},
     .v = {1, 1, 128, 8},
     .causal = true,
     .offset = 3,
     .window = -2},
    {.name = "empty window",
     .q = {1, 2, 70, 8},
     .k = {1, 2, 70, 8},
     .v = {1, 2, 70, 8},
     .causal = true,
     .offset = -3,
     .window = 3,
     .empty_row = "zero"},
    // Fewer queries than a block has: some see keys, and the others make the gradients of all keys NaN.
    {.name = "causal, one query sees nothing, nan",
     .q = {1, 2, 16, 3},
     .k = {1, 2, 16, 3},
     .v = {1, 2, 16, 3},
     .causal = true,
     .offset = -1},
    {.name = "empty window of one key, nan",
     .q = {1, 2, 3, 1},
     .k = {1, 2, 3, 1},
     .v = {1, 2, 3, 1},
     .causal = true,
     .offset = -1,
     .window = 3,
     .hidden_gradient = true},
    {.name = "window beyond all integers",
     .q = {1, 2, 70, 8},
     .k = {1, 2, 70, 8},
     .v = {1, 2, 70, 8},
     .window = INT64_MAX,
     .empty_row = "mean"},
    {.name = "capped",
     .q = {2, 2, 20, 8},
     .k = {2, 2, 18, 8},
     .v = {2, 2, 18, 8},
     .bias = {18},
     .softcap = .7},
    {.name = "capped, mean, with gradient",
     .q = {2, 2, 9, 8},
     .k = {2, 2, 18, 8},
     .v = {2, 2, 18, 8},
     .mask = {2, 1, 9, 1},
     .softcap = .7,
     .empty_row = "mean",
     .hidden_gradient = true},
    {.name = "capped, causal, mean, with gradient",
     .q = {1, 3, 5, 1},
     .k = {1, 3, 40, 1},
     .v = {1, 3, 40, 1},
     .causal = true,
     .offset = -1,
     .softcap = .7,
     .empty_row = "mean",
     .hidden_gradient = true},
    {.name = "dropout",
     .q = {2, 3, 33, 8},
     .k = {2, 3, 75, 8},
     .v = {2, 3, 75, 8},
     .bias = {3, 1, 75},
     .dropout = .3},
    {.name = "dropout, causal",
     .q = {2, 2, 70, 8},
     .k = {2, 2, 70, 8},
     .v = {2, 2, 70, 8},
     .causal = true,
     .dropout = .5},
    {.name = "odd extents", .q = {1, 2, 65, 13}, .k = {1, 2, 77, 13}, .v = {1, 2, 77, 9}},
    {.name = "one query", .q = {2, 3, 1, 24}, .k = {2, 3, 37, 24}, .v = {2, 3, 37, 24}},
    {.name = "one key", .q = {1, 2, 61, 7}, .k = {1, 2, 1, 7}, .v = {1, 2, 1, 5}},
    {.name = "one of each", .q = {1, 2, 1, 1}, .k = {1, 2, 1, 1}, .v = {1, 2, 1, 1}},
};

// The case with bfloat16 operands but bias and mask. Results are float32.
inline OpCase InBFloat16(OpCase c) {
  for (size_t i = 0; i < (c.op == "Attention" ? 3 : 4); ++i) c.inputs[i] = Narrow(c.inputs[i]);
  return c;
}
inline OpCase WithBFloat16Results(OpCase c) {
  for (TestTensor& result : c.outputs) result = Empty(result.dims, DType::kBFloat16);
  return c;
}

}  // namespace act::attention_cases
