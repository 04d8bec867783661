// Distributes levels over the codes of a plan under --bits=AVG, before anything was measured: by an analytic
// prior of what each adds to the gradient's variance. actrun --calibrate does it by measurement.
//
// The prior: every code has the same share at the same step between levels, whatever its size, but for what
// no convolution or product reads, which has a tenth. The gradients of layers are of about the same norm, and
// so are their errors: a small tensor is no less important than a large one, and cheaper. What only the
// gradient of a normalization reads enters it by means over many elements. Measured on residual networks the
// shares at the same step lie within a factor of three of this.
#include <map>
#include <set>

#include "compiler/ops/codec_ops.h"
#include "compiler/policy/allocate_codecs.h"
#include "passes/pass.h"
#include "runtime/base/error.h"

namespace act {
namespace {

constexpr double kWithoutProduct = .1;
constexpr int64_t kSamples = 16;  // sizes of codes are compared at so many: what is per batch decides

bool IsProduct(const Node& node) {
  return node.op == "ConvGradWeight" || node.op == "ConvGradInput" || node.op == "Conv" ||
         node.op == "MatMul" || node.op == "AttentionGrad";
}

class Mixer {
 public:
  Mixer(Graph& graph, PassContext& context) : graph_(graph), context_(context) {}

  llvm::Error Run() {
    FindCodes();
    FindReadByProducts();
    std::vector<CodedEdge> edges;
    std::vector<SavedEdge*> saved;
    double bits = 0;
    for (SavedEdge& edge : context_.edges) {
      const auto it = codes_.find(edge.stored);
      if (it == codes_.end()) continue;
      const auto& [codec, dims] = it->second;
      const double weight = read_by_products_.count(edge.stored) ? 1 : kWithoutProduct;
      edges.push_back({.codec = codec,
                       .dims = dims,
                       .variance = weight * RelativeError(codec),
                       .least_bits = edge.least_bits});
      saved.push_back(&edge);
      bits += context_.policy.average_bits *
              static_cast<double>(TensorType{DType::kBool, dims}.Elements().At(kSamples));
    }
    if (edges.empty()) return llvm::Error::success();
    ACT_TRY(const std::vector<Codec> codecs,
            AllocateCodecs(edges, kSamples,
                           static_cast<int64_t>(std::min(bits / 8, static_cast<double>(kTooLarge)))));
    for (size_t e = 0; e < edges.size(); ++e) Set(*saved[e], codecs[e], edges[e].dims);
    return llvm::Error::success();
  }

 private:
  void FindCodes() {
    for (const Node& node : graph_.nodes)
      if (node.op == "Compress" && CodecOf(node.attrs).HasLevels())
        codes_[node.outputs[0]] = {CodecOf(node.attrs), graph_.value(node.inputs[0]).type.dims};
  }

  // Codes whose numbers reach a product's gradient, through nodes that read saved values alone.
  void FindReadByProducts() {
    std::map<ValueId, std::set<ValueId>> made_of;  // what is no gradient: of these codes
    std::set<ValueId> gradients;
    for (const Node& node : graph_.nodes) {
      if (node.phase == Phase::kForward) continue;
      std::set<ValueId> read;
      bool gradient = node.op.find("Grad") != std::string::npos;
      for (const ValueId v : node.inputs) {
        if (v == kNoValue) continue;
        gradient |= gradients.count(v) != 0;
        if (codes_.count(v)) read.insert(v);
        const auto it = made_of.find(v);
        if (it != made_of.end()) read.insert(it->second.begin(), it->second.end());
      }
      if (IsProduct(node)) read_by_products_.insert(read.begin(), read.end());
      for (const ValueId v : node.outputs) {
        if (gradient)
          gradients.insert(v);
        else
          made_of[v] = read;
      }
    }
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
    edge.reason += "; " + std::to_string(codec.levels) + " levels, its part of --bits";
  }

  Graph& graph_;
  PassContext& context_;
  std::map<ValueId, std::pair<Codec, Dims>> codes_;
  std::set<ValueId> read_by_products_;
};

}  // namespace

llvm::Error MixLevels(Graph& graph, PassContext& context) {
  if (context.policy.average_bits == 0) return llvm::Error::success();
  return Mixer(graph, context).Run();
}

}  // namespace act
