#include "compiler/ops/codec_ops.h"

#include "compiler/ops/op_table.h"
#include "runtime/codec/plugin.h"
#include "runtime/plan/ops/runtime_op.h"

namespace act {
namespace {

constexpr std::pair<const char*, CodecKind> kKinds[] = {
    {"mask", CodecKind::kMask},     {"uniform", CodecKind::kUniform},    {"index", CodecKind::kIndex},
    {"sign", CodecKind::kSign},     {"zero", CodecKind::kZero},          {"fp16", CodecKind::kFloat16},
    {"bf16", CodecKind::kBFloat16}, {"fp8e4m3", CodecKind::kFloat8E4M3}, {"fp8e5m2", CodecKind::kFloat8E5M2},
    {"plugin", CodecKind::kPlugin}};
constexpr std::pair<const char*, Rounding> kRoundings[] = {
    {"stochastic", Rounding::kStochastic}, {"dither", Rounding::kDither}, {"nearest", Rounding::kNearest}};
constexpr std::pair<const char*, Metadata> kMetadata[] = {{"pair", Metadata::kPair},
                                                          {"log_pair", Metadata::kLogPair},
                                                          {"single", Metadata::kSingle},
                                                          {"log_single", Metadata::kLogSingle},
                                                          {"sides", Metadata::kSides}};
constexpr std::pair<const char*, Spacing> kSpacings[] = {{"even", Spacing::kEven},
                                                         {"fitted", Spacing::kFitted}};

// The value that an attribute names; `other` where it names none.
template <class T, size_t kCount>
T Named(const Attributes& attrs, const char* attribute, const std::pair<const char*, T> (&names)[kCount],
        T other) {
  const std::string text = attrs.String(attribute);
  for (const auto& [name, value] : names)
    if (text == name) return value;
  return other;
}
template <class T, size_t kCount>
void SetNamed(Attributes& attrs, const char* attribute, const std::pair<const char*, T> (&names)[kCount],
              T value) {
  for (const auto& [name, each] : names)
    if (each == value) attrs.Set(attribute, std::string(name));
}

// Compress(x) -> code: u8[bytes].
llvm::Error InferCompress(InferContext& c) {
  const Codec codec = CodecOf(c.node.attrs);
  if (const auto wrong = CheckCodec(codec)) return c.Fail(*wrong);
  const std::optional<TensorType> type = CodeType(codec, c.in(0).dims);
  if (!type) return c.Fail("elements per sample of " + ToString(c.in(0)) + " vary with the batch size");
  c.outputs[0] = *type;
  return llvm::Error::success();
}

// Decompress(code) -> x, the wanted type; with attribute `as` = "mask": 1 where x > 0, else 0.
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

// The same tensor in another memory.
llvm::Error InferSwap(InferContext& c) {
  c.outputs = {c.in(0)};
  return llvm::Error::success();
}

Dim NoFlops(const Node&, const Graph&) { return Dim(0); }

}  // namespace

bool DecodesMask(const Node& node) { return node.attrs.String("as") == "mask"; }

Codec CodecOf(const Attributes& attrs) {
  Codec codec;
  codec.kind = Named(attrs, "kind", kKinds, CodecKind::kNone);
  codec.bits = static_cast<int32_t>(attrs.Int("bits"));
  codec.group_size = static_cast<int32_t>(attrs.Int("group_size"));
  if (codec.kind == CodecKind::kPlugin) {
    auto plugin = std::make_shared<PluginCodec>();
    plugin->name = attrs.String("plugin");
    plugin->version = attrs.Int("version");
    plugin->metadata_bytes = static_cast<int32_t>(attrs.Int("metadata_bytes"));
    plugin->group_bytes = static_cast<int32_t>(attrs.Int("group_bytes"));
    codec.plugin = std::move(plugin);
  }
  if (!codec.HasLevels()) return codec;
  codec.levels = static_cast<int32_t>(attrs.Int("levels"));
  codec.below = static_cast<int32_t>(attrs.Int("below"));
  codec.rounding = Named(attrs, "rounding", kRoundings, Rounding::kStochastic);
  codec.metadata = Named(attrs, "metadata", kMetadata, Metadata::kPair);
  codec.spacing = Named(attrs, "spacing", kSpacings, Spacing::kEven);
  return codec;
}

Attributes CodecAttributes(const Codec& codec, int64_t stream) {
  Attributes attrs;
  SetNamed(attrs, "kind", kKinds, codec.kind);
  attrs.Set("bits", int64_t{codec.bits});
  attrs.Set("group_size", int64_t{codec.group_size});
  attrs.Set("stream", stream);
  if (codec.plugin) {
    attrs.Set("plugin", codec.plugin->name);
    attrs.Set("version", codec.plugin->version);
    attrs.Set("metadata_bytes", int64_t{codec.plugin->metadata_bytes});
    attrs.Set("group_bytes", int64_t{codec.plugin->group_bytes});
  }
  if (!codec.HasLevels()) return attrs;
  attrs.Set("levels", int64_t{codec.levels});
  if (codec.kind == CodecKind::kSign) attrs.Set("below", int64_t{codec.below});
  SetNamed(attrs, "rounding", kRoundings, codec.rounding);
  // What is usual is left out.
  if (codec.metadata != Metadata::kPair) SetNamed(attrs, "metadata", kMetadata, codec.metadata);
  if (codec.spacing != Spacing::kEven) SetNamed(attrs, "spacing", kSpacings, codec.spacing);
  return attrs;
}

void AddCodecOps(std::vector<OpDef>& ops) {
  ops.push_back({.name = "Compress", .infer = InferCompress, .coding = Coding::kEncode});
  ops.push_back({.name = "Decompress", .infer = InferDecompress, .coding = Coding::kDecode});
  ops.push_back({.name = kSwapOut, .infer = InferSwap, .flops = NoFlops});
  ops.push_back({.name = kSwapIn, .infer = InferSwap, .flops = NoFlops});
  ops.push_back(
      {.name = kFused, .min_inputs = 0, .max_inputs = -1, .infer = InferFused, .flops = FusedFlops});
}

}  // namespace act
