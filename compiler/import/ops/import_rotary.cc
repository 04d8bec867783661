// Rotary position embeddings (Su et al. 2021): pairs of numbers of a head turn by the angle of the token's
// position.
#include "compiler/import/ops/gather_index.h"
#include "compiler/import/ops/slices.h"

namespace act::onnx_import {
namespace {

// Which input is which, of the standard operator and of ONNX Runtime's.
struct Inputs {
  size_t cosines = 1, sines = 2, positions = 3;
};

Inputs InputsOf(const NodeContext& c) { return c.node.domain() == kMicrosoft ? Inputs{2, 3, 1} : Inputs{}; }

// Input 0 by heads, and where its tokens lie.
struct Heads {
  ValueId x = kNoValue;
  size_t token_axis = 2;  // [N, heads, tokens, depth], or [N, tokens, heads, depth]
  int64_t depth = 0;
};

llvm::Expected<Heads> HeadsOf(NodeContext& c, const Inputs& inputs) {
  Heads heads;
  ACT_TRY(heads.x, c.Value(0));
  const Dims dims = c.DimsOf(0);
  if (dims.size() == 3) {
    // ONNX Runtime takes the depth from the angles where the number of heads is left out.
    const Dims& angles = c.DimsOf(inputs.cosines);
    int64_t count = c.attrs.Int("num_heads");
    if (count == 0 && c.node.domain() == kMicrosoft && !angles.empty() && angles.back().IsFixed() &&
        angles.back().fixed > 0 && dims[2].IsFixed())
      count = dims[2].fixed / (2 * angles.back().fixed);
    const auto depth = count > 0 ? DivideExact(dims[2], Dim(count)) : std::nullopt;
    if (!depth)
      return c.Fail("the last axis of " + ToString(c.Type(0)) +
                    " cannot be cut into num_heads = " + std::to_string(count) + " heads");
    ACT_TRY(heads.x, c.Reshape(heads.x, {dims[0], dims[1], count, *depth}));
    heads.token_axis = 1;
  } else if (dims.size() != 4) {
    return c.Fail("takes 3 or 4 axes, not " + ToString(c.Type(0)));
  }
  const Dim depth = c.TypeOf(heads.x).dims.back();
  if (!depth.IsFixed()) return c.Fail("heads must have a fixed size");
  heads.depth = depth.fixed;
  return heads;
}

// The cosines or sines, input i, of each token: [N or 1, tokens, pairs], and 1 for the heads.
llvm::Expected<ValueId> AnglesOf(NodeContext& c, size_t i, size_t positions, const Heads& heads,
                                 int64_t pairs) {
  ACT_TRY(ValueId angles, c.Value(i));
  const Dim tokens = c.TypeOf(heads.x).dims[heads.token_axis];
  if (c.Has(positions)) {
    if (c.DimsOf(i).size() != 2 || c.DimsOf(positions).size() != 2)
      return c.Fail("with positions, these and the angles must be matrices");
    ACT_TRY(angles, Gather(c, angles, 0, c.In(positions), Along(0)));
  }
  Dims dims = c.TypeOf(angles).dims;
  if (dims.size() != 3 || dims[1] != tokens || dims[2] != Dim(pairs))
    return c.Fail(ToString(c.TypeOf(angles)) + " are no angles of " + std::to_string(pairs) +
                  " pairs for each token of " + ToString(c.TypeOf(heads.x)));
  dims.insert(dims.begin() + (heads.token_axis == 1 ? 2 : 1), Dim(1));
  return c.Reshape(angles, dims);
}

// Elements first, first + step, .. of the last axis.
llvm::Expected<ValueId> Take(const NodeContext& c, ValueId x, int64_t first, int64_t count, int64_t step) {
  std::vector<SliceRange> ranges = Whole(c.TypeOf(x).dims);
  ranges.back() = {first, count, step};
  return SliceOf(c, x, ranges);
}

// a p - b q, or with `plus` a p + b q
llvm::Expected<ValueId> Combine(const NodeContext& c, ValueId a, ValueId p, ValueId b, ValueId q, bool plus) {
  ACT_TRY(const ValueId left, c.Emit("Mul", {p, a}));
  ACT_TRY(const ValueId right, c.Emit("Mul", {q, b}));
  return c.Emit(plus ? "Add" : "Sub", {left, right});
}

llvm::Error ImportRotaryEmbedding(NodeContext& c) {
  const Inputs inputs = InputsOf(c);
  if (c.attrs.Float("scale", 1) != 1 || c.attrs.Int("is_packed_batching") != 0)
    return c.Fail("scale and is_packed_batching are not supported");
  ACT_TRY(const Heads heads, HeadsOf(c, inputs));
  const int64_t given = c.attrs.Int("rotary_embedding_dim"), turned = given == 0 ? heads.depth : given;
  if (turned < 2 || turned % 2 != 0 || turned > heads.depth)
    return c.Fail("turns " + std::to_string(turned) + " numbers of a head of " + std::to_string(heads.depth));
  const int64_t pairs = turned / 2;
  ACT_TRY(const ValueId cosine, AnglesOf(c, inputs.cosines, inputs.positions, heads, pairs));
  ACT_TRY(const ValueId sine, AnglesOf(c, inputs.sines, inputs.positions, heads, pairs));
  const bool interleaved = c.attrs.Int("interleaved") != 0;  // a pair's numbers are neighbours
  const int64_t second = interleaved ? 1 : pairs, step = interleaved ? 2 : 1;
  ACT_TRY(const ValueId a, Take(c, heads.x, 0, pairs, step));
  ACT_TRY(const ValueId b, Take(c, heads.x, second, pairs, step));
  ACT_TRY(ValueId real, Combine(c, cosine, a, sine, b, false));
  ACT_TRY(ValueId imaginary, Combine(c, sine, a, cosine, b, true));
  Dims dims = c.TypeOf(real).dims;
  std::vector<ValueId> parts{real, imaginary};
  if (interleaved) {
    Dims single = dims;
    single.emplace_back(1);
    for (ValueId& part : parts) {
      ACT_TRY(part, c.Reshape(part, single));
    }
    ACT_TRY(ValueId joined, c.Emit("Concat", parts, Along(dims.size())));
    dims.back() = Dim(turned);
    ACT_TRY(joined, c.Reshape(joined, dims));
    parts = {joined};
  }
  if (turned < heads.depth) {
    ACT_TRY(const ValueId rest, Take(c, heads.x, turned, heads.depth - turned, 1));
    parts.push_back(rest);
  }
  ValueId y = parts[0];
  if (parts.size() > 1) {
    ACT_TRY(y, c.Emit("Concat", parts, Along(dims.size() - 1)));
  }
  return c.Return(c.Reshape(y, c.DimsOf(0)));
}

}  // namespace

const std::vector<ImportEntry>& RotaryImports() {
  static const std::vector<ImportEntry> entries = {
      {"RotaryEmbedding", 3, 4, ImportRotaryEmbedding},
      {"RotaryEmbedding", 4, 4, ImportRotaryEmbedding, kMicrosoft},
  };
  return entries;
}

}  // namespace act::onnx_import
