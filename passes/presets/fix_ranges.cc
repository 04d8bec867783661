// Stores the results of batch normalization in a fixed range, as BLPA does (Chakrabarti and
// Moseley, "Backprop with Approximate Activations for Memory-efficient Network Training", NeurIPS
// 2019). After BatchNorm, y = gamma xhat + beta is known to have mean beta and deviation |gamma| in
// each channel. So 2^bits levels over six deviations need no minimum and no scale beside them.
//
//   L = 2^bits
//   forward    g = max(|gamma|, 1e-8)   b = beta / g   shift = max(1, L / 2 - floor(b L / 6))   [C]
//              q = clip(ceil(y / g L / 6) - 1 + shift, 0, L - 1)         stored, `bits` bits each
//   backward   d = (q + 1/2 - shift) 6 / L
//              xhat = sign(gamma) (d - b)      mask of the ReLU = d > 0    its result = max(d g, 0)
//
// 0 lies between two levels, so that the ReLU's mask is that of the forward pass, except in a
// channel whose range does not reach 0. Rounding is the same at every step, and values outside of
// the range are cut off, so the gradient is biased. Values that no batch normalization makes are
// kept as they are, even the result of a ReLU after a sum: the system is for networks whose
// convolutions read BatchNorm and ReLU.
#include <map>
#include <set>

#include "compiler/ops/graph_builder.h"
#include "compiler/ops/op_table.h"
#include "passes/pass.h"
#include "passes/storage/saved_values.h"
#include "runtime/base/error.h"

namespace act {
namespace {

constexpr float kDeviations = 6;
constexpr float kLeastScale = 1e-8f;

using Role = Normalization::Role;

// Whether the node has this role in a batch normalization.
bool HasRole(const Node& node, Role role) {
  const Normalization& norm = OpOf(node).norm;
  return norm.role == role && !norm.by_rows;
}

class RangeFixer {
 public:
  RangeFixer(Graph& graph, PassContext& context)
      : graph_(graph),
        context_(context),
        saved_(graph, context),
        builder_(graph),
        levels_(static_cast<float>(1 << context.policy.range_bits)) {}

  llvm::Error Run() {
    FindNorms();
    std::vector<Node> nodes = std::move(graph_.nodes);
    graph_.nodes.clear();
    for (Node& node : nodes) {
      const bool forward = node.phase == Phase::kForward;
      if (!forward) {
        if (IsReplaced(node)) continue;
        ACT_CHECK_OK(Redirect(node));
      }
      const std::vector<ValueId> outputs = node.outputs;
      graph_.nodes.push_back(std::move(node));
      for (ValueId v : outputs)
        if (const auto it = norms_.find(v); forward && it != norms_.end()) ACT_CHECK_OK(Store(it->second));
    }
    return llvm::Error::success();
  }

 private:
  struct Norm {
    Node apply;
    ValueId code = kNoValue;                               // u8, like y
    ValueId g = kNoValue, b = kNoValue, shift = kNoValue;  // one number for each channel
    ValueId side = kNoValue;
  };
  enum class Form { kNormalized, kRelu, kMask };
  struct Read {
    ValueId norm;  // the y from which it is computed
    Form form;
  };

  // Finds the batch normalizations whose xhat the backward pass reads, and the other values that
  // follow from their code.
  void FindNorms() {
    std::map<std::vector<ValueId>, ValueId> by_operands;
    for (const Node& node : graph_.nodes)
      if (HasRole(node, Role::kApply) && node.phase == Phase::kForward && node.attrs.Int("batch") != 0 &&
          CodeType(Codec::Index(8), graph_.value(node.outputs[0]).type.dims))
        by_operands[{node.inputs.begin(), node.inputs.begin() + 3}] = node.outputs[0];
    for (const Node& node : graph_.nodes) {
      const auto it = HasRole(node, Role::kNormalize) ? by_operands.find(node.inputs) : by_operands.end();
      if (it == by_operands.end()) continue;
      reads_[node.outputs[0]] = {it->second, Form::kNormalized};
      norms_[it->second].apply = graph_.nodes[static_cast<size_t>(saved_.Producer(it->second))];
    }
    for (const Node& node : graph_.nodes)
      if (OpOf(node).rectifies && node.phase == Phase::kForward && norms_.count(node.inputs[0]))
        reads_[node.outputs[0]] = {node.inputs[0], Form::kRelu};
    for (const Node& node : graph_.nodes) {
      if (!IsSignMask(OpOf(node))) continue;
      const auto relu = reads_.find(node.inputs[0]);
      if (relu != reads_.end() && relu->second.form == Form::kRelu)
        reads_[node.outputs[0]] = {relu->second.norm, Form::kMask};
    }
  }

  // Backward nodes whose readers get their results from the code instead.
  bool IsReplaced(const Node& node) const {
    const auto it = reads_.find(node.outputs.empty() ? kNoValue : node.outputs[0]);
    return it != reads_.end() && it->second.form != Form::kRelu;
  }

  llvm::Expected<ValueId> Op(const char* op, std::vector<ValueId> inputs, const std::string& name) {
    return builder_.Add1(op, std::move(inputs), {}, name);
  }
  llvm::Expected<ValueId> Times(ValueId x, float factor, const std::string& name) {
    return Op("Mul", {x, builder_.Scalar(factor)}, name);
  }

  llvm::Error Store(Norm& norm) {
    const std::string name = norm.apply.name + ".range";
    const ValueId y = norm.apply.outputs[0], gamma = norm.apply.inputs[3], beta = norm.apply.inputs[4];
    const ValueId one = builder_.Scalar(1), zero = builder_.Scalar(0);
    builder_.SetPhase(Phase::kForward);
    ACT_TRY(const ValueId size, Op("Abs", {gamma}, name));
    ACT_TRY(norm.g, Op("Max", {size, builder_.Scalar(kLeastScale)}, name));
    ACT_TRY(norm.b, Op("Div", {beta, norm.g}, name));
    ACT_TRY(norm.side, Op("ReluSide", {gamma}, name));
    ACT_TRY(const ValueId offset, Times(norm.b, levels_ / kDeviations, name));
    ACT_TRY(const ValueId below, Op("Floor", {offset}, name));
    ACT_TRY(const ValueId middle, Op("Sub", {builder_.Scalar(levels_ / 2), below}, name));
    ACT_TRY(norm.shift, Op("Max", {middle, one}, name));
    for (const ValueId v : {norm.g, norm.b, norm.side, norm.shift}) context_.marks[v].statistic = true;

    ACT_TRY(const ValueId scaled, Op("Div", {y, norm.g}, name));
    ACT_TRY(const ValueId position, Times(scaled, levels_ / kDeviations, name));
    ACT_TRY(const ValueId above, Op("Ceil", {position}, name));
    ACT_TRY(const ValueId level, Op("Sub", {above, one}, name));
    ACT_TRY(const ValueId shifted, Op("Add", {level, norm.shift}, name));
    ACT_TRY(const ValueId at_least, Op("Max", {shifted, zero}, name));
    ACT_TRY(const ValueId clipped, Op("Min", {at_least, builder_.Scalar(levels_ - 1)}, name));
    Attributes to;
    to.Set("to", static_cast<int64_t>(DType::kUint8));
    ACT_TRY(norm.code, builder_.Add1("Cast", {clipped}, to, norm.apply.name));
    context_.marks[norm.code].range_code = true;
    return llvm::Error::success();
  }

  llvm::Expected<ValueId> Make(const Read& read, const std::string& reader) {
    const Norm& norm = norms_.at(read.norm);
    const std::string name = reader + ".range";
    Attributes to;
    to.Set("to", static_cast<int64_t>(DType::kFloat32));
    ACT_TRY(const ValueId level, builder_.Add1("Cast", {norm.code}, to, name));
    ACT_TRY(const ValueId middle, Op("Add", {level, builder_.Scalar(.5f)}, name));
    ACT_TRY(const ValueId position, Op("Sub", {middle, norm.shift}, name));
    ACT_TRY(const ValueId d, Times(position, kDeviations / levels_, name));
    if (read.form == Form::kMask) return Op("ReluDerivative", {d}, name);
    if (read.form == Form::kRelu) {
      ACT_TRY(const ValueId y, Op("Mul", {d, norm.g}, name));
      return Op("Max", {y, builder_.Scalar(0)}, name);
    }
    ACT_TRY(const ValueId centered, Op("Sub", {d, norm.b}, name));
    return Op("Mul", {centered, norm.side}, name);
  }

  // Each reader in the backward pass gets its own copy, made right before it.
  llvm::Error Redirect(Node& reader) {
    builder_.SetPhase(Phase::kBackward);
    std::map<ValueId, ValueId> made;
    for (ValueId& in : reader.inputs) {
      const auto it = in == kNoValue ? reads_.end() : reads_.find(in);
      if (it == reads_.end()) continue;
      if (!made.count(in)) {
        ACT_TRY(made[in], Make(it->second, reader.name));
      }
      in = made[in];
    }
    return llvm::Error::success();
  }

  Graph& graph_;
  PassContext& context_;
  const SavedValues saved_;
  GraphBuilder builder_;
  const float levels_;
  std::map<ValueId, Norm> norms_;  // by y
  std::map<ValueId, Read> reads_;  // values that the backward pass gets from codes
};

}  // namespace

llvm::Error FixRanges(Graph& graph, PassContext& context) { return RangeFixer(graph, context).Run(); }

}  // namespace act
