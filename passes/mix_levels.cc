// Distributes levels over the codes of a plan before anything was measured, by an analytic prior of what each
// adds to the gradient's variance (gradient_shares.h): in the bytes that the level's own bits would take, or
// under --bits=AVG in AVG bits an element. actrun --calibrate does it by measurement.
#include <map>

#include "compiler/ops/codec_ops.h"
#include "compiler/policy/allocate_codecs.h"
#include "passes/gradient_shares.h"
#include "passes/pass.h"
#include "runtime/base/error.h"

namespace act {
namespace {

// Of a sample: a batch of such tensors is read from memory, and their codes' time is the step's.
constexpr int64_t kLargeElements = 1 << 14;
constexpr int64_t kSamples = 16;  // sizes of codes are compared at so many: what is per batch decides

// Where vectors take less than this part of all bytes, each keeps the level's own bits at least: that costs
// next to nothing, and how large the head's part of the gradient is depends on its weights. A head that
// begins at 0, as many do, has all of it.
constexpr double kVectorsPart = 1. / 8;

// The range of a group of normal numbers of deviation 1, and of one side of it.
constexpr double kRange = 5.6, kSide = 2.8;
// Relative to the root of their mean square: of what is above 0 half of the time, and about 0 else; of a
// slope between 0 and 1; and of a loss's probabilities, relative to their distance from what is right.
constexpr double kRectified = 4, kSlope = 2, kProbability = 1;

// One position a sample: behind a pooling, a class token, a gate.
bool IsVector(const Dims& dims) {
  for (size_t i = 1; i + 1 < dims.size(); ++i)
    if (dims[i] != Dim(1)) return false;
  return true;
}

double RangeOf(const Node& from) {
  if (from.op.ends_with("Derivative")) return kSlope;
  if (from.op == "SoftmaxCrossEntropy") return kProbability;
  for (const char* op : {"Relu", "MaxPool", "Silu", "Gelu", "HardSwish", "Sigmoid"})
    if (from.op == op) return kRectified;
  return kRange;
}

CodedEdge Expected(const Codec& codec, const Dims& dims, const GradientShare& share, double range,
                   int32_t least_bits, bool planes_only) {
  CodedEdge edge{.codec = codec, .dims = dims, .least_bits = least_bits, .planes_only = planes_only};
  double weight = share.value + share.mean;
  if (codec.kind == CodecKind::kZero) range = kSide;
  if (codec.kind == CodecKind::kSign) {
    range = codec.metadata == Metadata::kSides ? kRange : kSide;
    weight = share.value + share.mean * 3 / 4;
    edge.share_below = weight > 0 ? share.mean / 4 / weight : 0;
  }
  edge.variance = weight * range * range * RelativeError(codec, edge.share_below);
  return edge;
}

class Mixer {
 public:
  Mixer(Graph& graph, PassContext& context) : graph_(graph), context_(context) {}

  llvm::Error Run() {
    FindCodes();
    const std::map<ValueId, GradientShare> shares = EstimateShares(graph_, kSamples);
    std::vector<CodedEdge> edges;
    std::vector<SavedEdge*> saved;
    double bits = 0, vectors = 0;
    for (SavedEdge& edge : context_.edges) {
      const auto it = codes_.find(edge.stored);
      if (it == codes_.end()) continue;
      const auto& [codec, dims, range] = it->second;
      const GradientShare& share = shares.at(edge.stored);
      if (share.value + share.mean == 0) continue;  // nothing is known of its readers: it stays as it is
      edges.push_back(Expected(codec, dims, share, range, edge.least_bits, PlanesOnly(dims)));
      if (IsVector(dims)) vectors += static_cast<double>(edge.bytes.At(kSamples));
      saved.push_back(&edge);
      bits += BudgetOf(edge, dims);
    }
    if (edges.empty()) return llvm::Error::success();
    if (context_.policy.average_bits == 0 && 8 * vectors <= kVectorsPart * bits)
      for (CodedEdge& edge : edges)
        if (IsVector(edge.dims)) edge.least_bits = std::max(edge.least_bits, edge.codec.bits);
    ACT_TRY(const std::vector<Codec> codecs,
            AllocateCodecs(edges, kSamples,
                           static_cast<int64_t>(std::min(bits / 8, static_cast<double>(kTooLarge)))));
    for (size_t e = 0; e < edges.size(); ++e) Set(*saved[e], codecs[e], edges[e].dims);
    return llvm::Error::success();
  }

 private:
  void FindCodes() {
    std::map<ValueId, double> ranges;
    for (const Node& node : graph_.nodes) {
      if (node.phase != Phase::kForward) break;
      if (node.op == "Compress" && CodecOf(node.attrs).HasLevels())
        codes_[node.outputs[0]] = {CodecOf(node.attrs), graph_.value(node.inputs[0]).type.dims,
                                   ranges[node.inputs[0]]};
      for (const ValueId v : node.outputs) ranges[v] = RangeOf(node);
    }
  }

  // Where nobody asks for an average, time counts too: of large tensors packed levels take twice that of
  // planes.
  bool PlanesOnly(const Dims& dims) const {
    return context_.policy.average_bits == 0 && SamplesOf(dims).elements.At(1) >= kLargeElements;
  }

  double BudgetOf(const SavedEdge& edge, const Dims& dims) const {
    const Policy& policy = context_.policy;
    if (policy.average_bits == 0)
      return 8 * policy.mixed_bytes * static_cast<double>(edge.bytes.At(kSamples));
    return policy.average_bits * static_cast<double>(TensorType{DType::kBool, dims}.Elements().At(kSamples));
  }

  void Set(SavedEdge& edge, const Codec& codec, const Dims& dims) {
    for (Node& node : graph_.nodes) {
      const bool made = node.op == "Compress" && node.outputs[0] == edge.stored;
      const bool read = node.op == "Decompress" && node.inputs[0] == edge.stored;
      if (!made && !read) continue;
      const Attributes old = node.attrs;
      node.attrs = CodecAttributes(codec, old.Int("stream"));
      if (old.Has("as")) node.attrs.Set("as", old.String("as"));
    }
    graph_.value(edge.stored).type = *CodeType(codec, dims);
    edge.form = ToString(codec);
    edge.bits = BitsPerElement(codec);
    edge.bytes = graph_.value(edge.stored).type.Bytes();
    edge.reason += "; " + std::to_string(codec.levels) + " levels, its part of " +
                   (context_.policy.average_bits == 0 ? "the level's bytes" : "--bits");
  }

  Graph& graph_;
  PassContext& context_;
  struct Code {
    Codec codec;
    Dims dims;
    double range;
  };
  std::map<ValueId, Code> codes_;
};

}  // namespace

llvm::Error MixLevels(Graph& graph, PassContext& context) {
  if (context.policy.average_bits == 0 && context.policy.mixed_bytes == 0) return llvm::Error::success();
  return Mixer(graph, context).Run();
}

}  // namespace act
