#include "compiler/ops/codec_ops.h"

#include "compiler/ops/op_table.h"
#include "runtime/plan/runtime_op.h"

namespace act {
namespace {

// Compress(x) -> code: u8[bytes].
llvm::Error InferCompress(InferContext& c) {
  const Codec codec = CodecOf(c.node.attrs);
  if (const auto wrong = CheckCodec(codec)) return c.Fail(*wrong);
  const std::optional<TensorType> type = CodeType(codec, c.in(0).dims);
  if (!type) return c.Fail("elements per sample of " + ToString(c.in(0)) + " vary with the batch size");
  c.outputs[0] = *type;
  return llvm::Error::success();
}

// Decompress(code) -> x of the wanted type. With the attribute `as` = "mask": 1 where x >
// 0, else 0.
llvm::Error InferDecompress(InferContext& c) {
  if (DecodesMask(c.node) && !CodecOf(c.node.attrs).HoldsMask()) return c.Fail("its code holds no mask");
  const std::optional<TensorType> type = CodeType(CodecOf(c.node.attrs), c.outputs[0].dims);
  if (!type || *type != c.in(0))
    return c.Fail("code " + ToString(c.in(0)) + " does not hold " + ToString(c.outputs[0]));
  return llvm::Error::success();
}

// The fusion pass computes the result types from the nodes that it replaces.
llvm::Error InferFused(InferContext& c) {
  if (c.outputs.empty()) return c.Fail("has no result");
  return llvm::Error::success();
}

Dim FusedFlops(const Node& node, const Graph&) {
  Dim elements(1);
  for (const Dim& d : node.program.space) elements = elements * d;
  return elements * Dim(static_cast<int64_t>(node.program.instrs.size() + node.program.outputs.size()));
}

// The same tensor in the other memory.
llvm::Error InferSwap(InferContext& c) {
  c.outputs = {c.in(0)};
  return llvm::Error::success();
}

Dim NoFlops(const Node&, const Graph&) { return Dim(0); }

}  // namespace

bool DecodesMask(const Node& node) { return node.attrs.String("as") == "mask"; }

Attributes CodecAttributes(const Codec& codec, int64_t stream) {
  Attributes attrs = AttributesOf(codec);
  attrs.Set("stream", stream);
  return attrs;
}

void AddCodecOps(std::vector<OpDef>& ops) {
  ops.push_back({.name = "Compress", .infer = InferCompress, .coding = Coding::kEncode});
  ops.push_back({.name = "Decompress", .infer = InferDecompress, .coding = Coding::kDecode});
  ops.push_back({.name = kSwapOut, .infer = InferSwap, .flops = NoFlops});
  ops.push_back({.name = kSwapIn, .infer = InferSwap, .flops = NoFlops});
  ops.push_back({.name = kFused, .infer = InferFused, .flops = FusedFlops});
  ops.push_back({.name = "UpdateRows", .infer = InferFused, .flops = FusedFlops});
}

}  // namespace act
