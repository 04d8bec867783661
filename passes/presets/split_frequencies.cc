// Stores images in two parts, as DIVISION does (Wang et al., "DIVISION: Memory Efficient Training
// via Dual Activation Precision", ICML 2023). One part is the low frequencies, which are averages
// over blocks of pixels, in bf16. The other is the remainder of the pixels, in the level's few
// bits. The remainder has a smaller range than the pixels, so its steps are finer. The averages
// take 16 / 64 bits a pixel.
//
//   forward    low = AveragePool(x)       high = x - Resize(low)
//   backward   x = high + Resize(low)
//
// Blocks have at most 8 x 8 pixels and divide the image, so that none is cut. Values are left to
// compress if they are no images, if a block does not divide them, or if they are kept exactly.
#include <map>

#include "compiler/ops/graph_builder.h"
#include "compiler/ops/op_table.h"
#include "passes/pass.h"
#include "passes/storage/saved_values.h"
#include "runtime/base/error.h"

namespace act {
namespace {

constexpr int64_t kBlock = 8;

int64_t LargestDivisor(int64_t extent) {
  for (int64_t d = kBlock; d > 1; --d)
    if (extent % d == 0) return d;
  return 1;
}

class Splitter {
 public:
  Splitter(Graph& graph, PassContext& context)
      : graph_(graph), context_(context), saved_(graph, context), builder_(graph) {}

  llvm::Error Run() {
    std::map<ValueId, std::vector<int64_t>> blocks;
    for (ValueId v = 0; v < static_cast<ValueId>(graph_.values.size()); ++v)
      if (std::vector<int64_t> block = BlockOf(v); !block.empty()) blocks[v] = std::move(block);
    std::vector<Node> nodes = std::move(graph_.nodes);
    graph_.nodes.clear();
    for (Node& node : nodes) {
      const bool forward = node.phase == Phase::kForward;
      if (!forward) ACT_CHECK_OK(RedirectReads(node));
      const std::vector<ValueId> outputs = node.outputs;
      const std::string name = node.name;
      graph_.nodes.push_back(std::move(node));
      for (ValueId v : outputs)
        if (const auto it = blocks.find(v); forward && it != blocks.end())
          ACT_CHECK_OK(Split(v, it->second, name));
    }
    return llvm::Error::success();
  }

 private:
  struct Parts {
    ValueId low = kNoValue, high = kNoValue;
    std::vector<int64_t> block;
  };

  // Height and width of the blocks over which x: [N,H,W,C] is averaged. Empty: x is not split.
  std::vector<int64_t> BlockOf(ValueId x) const {
    const TensorType& type = graph_.value(x).type;
    if (type.rank() != 4 || !type.dims[1].IsFixed() || !type.dims[2].IsFixed() || !saved_.Crosses(x) ||
        !context_.policy.CodesLossily(saved_.FactsOf(x)))
      return {};
    for (size_t reader : saved_.Readers(x))
      if (OpOf(graph_.nodes[reader]).product == Product::kAttentionGradient)
        return {};  // heads and positions are no image
    const std::vector<int64_t> block = {LargestDivisor(type.dims[1].fixed),
                                        LargestDivisor(type.dims[2].fixed)};
    return block[0] * block[1] > 1 ? block : std::vector<int64_t>();
  }

  llvm::Expected<ValueId> Upsample(const Parts& parts, const TensorType& type, const std::string& name) {
    Attributes attrs;
    attrs.Set("mode", std::string("nearest"));
    attrs.Set("coordinate_mode", std::string("asymmetric"));
    attrs.Set("nearest_mode", std::string("floor"));
    attrs.Set("axes", std::vector<int64_t>{1, 2});
    attrs.Set("scales", std::vector<double>(parts.block.begin(), parts.block.end()));
    return builder_.AddTyped("Resize", {parts.low}, type, attrs, name + ".low.resize");
  }

  llvm::Error Split(ValueId x, const std::vector<int64_t>& block, const std::string& name) {
    const TensorType type = graph_.value(x).type;
    Attributes pool;
    pool.Set("kernel_shape", block);
    pool.Set("strides", block);
    pool.Set("pads", std::vector<int64_t>(4, 0));
    pool.Set("dilations", std::vector<int64_t>(2, 1));
    builder_.SetPhase(Phase::kForward);
    Parts parts{.block = block};
    ACT_TRY(parts.low, builder_.Add1("AveragePool", {x}, pool, name + ".low"));
    context_.marks[parts.low].low_frequency = true;
    ACT_TRY(const ValueId up, Upsample(parts, type, name));
    ACT_TRY(parts.high, builder_.Add1("Sub", {x, up}, {}, name + ".high"));
    parts_[x] = parts;
    return llvm::Error::success();
  }

  llvm::Error RedirectReads(Node& reader) {
    builder_.SetPhase(Phase::kBackward);
    for (ValueId& in : reader.inputs) {
      const auto it = in == kNoValue ? parts_.end() : parts_.find(in);
      if (it == parts_.end()) continue;
      const TensorType type = graph_.value(in).type;
      ACT_TRY(const ValueId up, Upsample(it->second, type, reader.name));
      ACT_TRY(in, builder_.Add1("Add", {it->second.high, up}, {}, reader.name + ".whole"));
    }
    return llvm::Error::success();
  }

  Graph& graph_;
  PassContext& context_;
  const SavedValues saved_;
  GraphBuilder builder_;
  std::map<ValueId, Parts> parts_;
};

}  // namespace

llvm::Error SplitFrequencies(Graph& graph, PassContext& context) { return Splitter(graph, context).Run(); }

}  // namespace act
