// Distributes levels over the codes of a plan before anything was measured. It uses an analytic
// prior of what each code adds to the gradient's variance (gradient_shares.h). The codes take the
// bytes that the level's own bits would take, with --bits=AVG those of AVG bits an element, and
// with --saved-limit at most the bytes of that limit. actrun --calibrate
// distributes levels by measurement.
#include <algorithm>

#include "compiler/ir/loss_part.h"
#include "compiler/ir/value_map.h"
#include "compiler/ops/codec_ops.h"
#include "compiler/ops/equal_parts.h"
#include "compiler/ops/op_table.h"
#include "compiler/policy/compared_batches.h"
#include "passes/pass.h"
#include "passes/storage/expected_variance.h"
#include "runtime/base/error.h"
#include "runtime/base/size.h"
#include "runtime/levels/allocate_codecs.h"

namespace act {
namespace {

// Elements of a sample. A batch of such tensors is read from memory, so their codes' time counts in
// the step's.
constexpr int64_t kLargeElements = 1 << 14;

// If what heads read takes less than this part of all bytes, it keeps at least the level's own bits. That
// costs next to nothing. How large the head's part of the gradient is depends on its weights: a
// head that begins at 0, as many do, has all of it.
constexpr double kHeadsPart = 1. / 8;

// This part of all bytes goes to more bits for what heads read, each code its even part of it, up to the most
// bits.
constexpr double kExtraPart = 1. / 32;
constexpr int kMostHeadBits = 8;

// How often the prior knows nothing of a code. Of 2,343 measured codes every hundredth did more than 30 times
// the harm that it expects.
constexpr double kUnknown = .05;

// A code that has less than this part of all elements is small: more bits for it cost next to nothing.
constexpr double kSmallPart = 1. / 64;

// True if there is one position a sample: after a pooling, in a class token, in a gate. Heads often read one. Rows of
// all positions (64 N of them) are no vectors.
bool IsVector(const Dims& dims) {
  if (!dims.empty() && dims[0].per_batch > 1) return false;
  for (size_t i = 1; i + 1 < dims.size(); ++i)
    if (dims[i] != Dim(1)) return false;
  return true;
}

double ElementsOf(const CodedEdge& edge) {
  return static_cast<double>(TensorType{DType::kBool, edge.dims}.Elements().At(kComparedBatch));
}

class Mixer {
 public:
  Mixer(Graph& graph, PassContext& context)
      : graph_(graph), context_(context), expected_(graph, Batch()), coders_(graph), of_head_(graph) {
    for (Node& node : graph.nodes) {
      const Coding coding = OpOf(node).coding;
      if (coding == Coding::kEncode) coders_[node.outputs[0]].push_back(&node);
      if (coding == Coding::kDecode) coders_[node.inputs[0]].push_back(&node);
    }
    FindHeads();
  }

  llvm::Error Run() {
    std::vector<CodedEdge> edges;
    std::vector<SavedEdge*> saved;
    for (SavedEdge& edge : context_.edges) {
      if (!expected_.codes().count(edge.stored)) continue;
      const CodedEdge expected = expected_.Of(edge.stored);
      // Nothing is known of its readers, so it stays as it is.
      if (expected.variance == 0) continue;
      edges.push_back(expected);
      edges.back().least_bits = edge.least_bits;
      edges.back().freedom = FreedomOf(expected.dims);
      saved.push_back(&edge);
    }
    ExpectTheUnknown(edges);
    KeepWhatHeadsRead(edges, saved);
    if (!context_.policy.HasBudget()) KeepOthers(edges);
    ACT_TRY(const std::vector<Codec> codecs, Allocate(edges, saved));
    for (size_t e = 0; e < edges.size(); ++e) Set(*saved[e], codecs[e], edges[e].dims);
    context_.expected_variance = expected_.Sum();
    return llvm::Error::success();
  }

 private:
  // The number of samples at which sizes of codes are compared. A limit
  // holds at the report's batch.
  int64_t Batch() const { return context_.policy.saved_limit > 0 ? context_.policy.batch : kComparedBatch; }

  // If the prior knows nothing of a code, an element of it is expected to do as much harm as others do on
  // average. So a code that seems harmless has few bits only where that is worth the risk: not where it is
  // small, and not where numbers are not normalized, of which the prior knows little. Large codes of
  // normalized numbers are as the prior has them, since their bits would come from the last layers, which
  // have most of the gradient once a network is trained.
  static void ExpectTheUnknown(std::vector<CodedEdge>& edges) {
    double weights = 0, all = 0;
    for (const CodedEdge& edge : edges) {
      weights += edge.variance / RelativeError(edge.codec, edge.share_below);
      all += ElementsOf(edge);
    }
    for (CodedEdge& edge : edges)
      if (!edge.normalized || ElementsOf(edge) < kSmallPart * all)
        edge.variance +=
            kUnknown * weights * ElementsOf(edge) / all * RelativeError(edge.codec, edge.share_below);
  }

  // If there is no budget, time counts too: packed levels of large tensors take twice the time of
  // bit planes.
  Freedom FreedomOf(const Dims& dims) const {
    const bool large = SamplesOf(dims).elements.At(1) >= kLargeElements;
    return large && !context_.policy.HasBudget() ? Freedom::kPlanes : Freedom::kForms;
  }

  // Marks the codes of what the last products read.
  void FindHeads() {
    const ValueMap<bool> leads = LeadToProducts(graph_);
    ValueMap<bool> read(graph_);
    for (const Node& node : graph_.nodes)
      if (node.phase == Phase::kForward && OpOf(node).product != Product::kNone && !leads[node.outputs[0]])
        for (const ValueId v : node.inputs)
          if (v != kNoValue) read[v] = true;
    for (const Node& node : graph_.nodes) {
      if (MakesEqualParts(graph_, node)) read[node.outputs[0]] = read[node.inputs[0]];
      if (OpOf(node).coding == Coding::kEncode) of_head_[node.outputs[0]] = read[node.inputs[0]];
    }
  }

  void KeepWhatHeadsRead(std::vector<CodedEdge>& edges, const std::vector<SavedEdge*>& saved) const {
    double bytes = 0, heads = 0;
    std::vector<CodedEdge*> kept;
    for (size_t e = 0; e < edges.size(); ++e) {
      const auto of_edge = static_cast<double>(PackedBytes(edges[e].codec, edges[e].dims, Batch()));
      bytes += of_edge;
      if (!IsVector(edges[e].dims) && !of_head_[saved[e]->stored]) continue;
      heads += of_edge;
      kept.push_back(&edges[e]);
    }
    if (heads > kHeadsPart * bytes) return;
    for (CodedEdge* edge : kept) {
      edge->least_levels = edge->codec.levels;
      if (context_.policy.HasBudget()) continue;
      const double extra = kExtraPart * 8 * bytes / static_cast<double>(kept.size()) / ElementsOf(*edge);
      const int most = std::max(kMostHeadBits - edge->codec.bits, 0);
      edge->least_levels <<= static_cast<int>(std::min(extra, static_cast<double>(most)));
    }
  }

  // The prior knows how large normalized numbers are, and little of others (what a gate leaves of a branch, rows over
  // their length). A single bit of these is too large a bet.
  static void KeepOthers(std::vector<CodedEdge>& edges) {
    for (CodedEdge& edge : edges)
      if (!edge.normalized) edge.least_bits = std::max(edge.least_bits, std::min(edge.codec.bits, 2));
  }

  llvm::Expected<std::vector<Codec>> Allocate(const std::vector<CodedEdge>& edges,
                                              const std::vector<SavedEdge*>& saved) const {
    const Policy& policy = context_.policy;
    if (policy.saved_limit > 0) return AllocateLimit(edges, saved);
    if (edges.empty()) return std::vector<Codec>{};
    double bytes = 0;
    for (size_t e = 0; e < edges.size(); ++e)
      bytes +=
          policy.average_bits > 0
              ? policy.average_bits / 8 *
                    static_cast<double>(TensorType{DType::kBool, edges[e].dims}.Elements().At(kComparedBatch))
              : static_cast<double>(PackedBytes(edges[e].codec, edges[e].dims, kComparedBatch));
    bytes *= policy.bytes_part;
    // What heads read may take more than the other codes can spare. Only an average that the user asks for is a limit.
    if (policy.average_bits == 0 || policy.bytes_part < 1)
      bytes = std::max(bytes, static_cast<double>(LeastCodeBytes(edges, kComparedBatch, CodeBytes::kPacked)));
    return AllocateCodecs(edges, kComparedBatch,
                          static_cast<int64_t>(std::min(bytes, static_cast<double>(kTooLarge))),
                          CodeBytes::kPacked);
  }

  // What is stored exactly, or in forms that leave no choice, counts too.
  llvm::Expected<std::vector<Codec>> AllocateLimit(const std::vector<CodedEdge>& edges,
                                                   const std::vector<SavedEdge*>& saved) const {
    int64_t others = 0;
    for (const SavedEdge& edge : context_.edges) others += edge.bytes.At(Batch());
    for (const SavedEdge* edge : saved) others -= edge->bytes.At(Batch());
    const int64_t limit = context_.policy.saved_limit, least = others + LeastCodeBytes(edges, Batch());
    context_.least_saved_bytes = least;
    if (least <= limit) return AllocateCodecs(edges, Batch(), limit - others);
    return MakeError("--saved-limit",
                     FormatSize(limit) + " are less than what " + context_.policy.level +
                         " stores in its fewest levels at batch " + std::to_string(Batch()),
                     "the least possible is " + std::to_string(least) + " bytes (" + FormatSize(least) + ")");
  }

  void Set(SavedEdge& edge, const Codec& codec, const Dims& dims) {
    for (Node* const node : coders_[edge.stored]) {
      const Attributes old = node->attrs;
      node->attrs = CodecAttributes(codec, old.Int("stream"));
      if (old.Has("as")) node->attrs.Set("as", old.String("as"));
    }
    expected_.SetCodec(edge.stored, codec);
    graph_.value(edge.stored).type = *CodeType(codec, dims);
    edge.form = ToString(codec);
    edge.bits = BitsPerElement(codec);
    edge.bytes = graph_.value(edge.stored).type.Bytes();
    edge.reason += "; " + std::to_string(codec.levels) + " levels, its part of " +
                   (context_.policy.saved_limit > 0    ? "--saved-limit"
                    : context_.policy.average_bits > 0 ? "--bits"
                                                       : "the level's bytes");
  }

  Graph& graph_;
  PassContext& context_;
  ExpectedVariance expected_;
  ValueMap<std::vector<Node*>> coders_;  // the nodes that make or read a code
  ValueMap<bool> of_head_;               // codes of what the last products read
};

}  // namespace

llvm::Error MixLevels(Graph& graph, PassContext& context) { return Mixer(graph, context).Run(); }

}  // namespace act
