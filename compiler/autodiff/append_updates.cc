#include "compiler/autodiff/append_updates.h"

#include <algorithm>
#include <numeric>

#include "compiler/ops/op_table.h"
#include "runtime/base/error.h"
#include "runtime/codec/dynamic_map.h"
#include "runtime/plan/optimizer.h"

namespace act {
namespace {

constexpr char kNorm[] = "grad_norm";

double FactorFor(Follows follows, const UpdateFactors& factors) {
  switch (follows) {
    case Follows::kNeither:
      break;
    case Follows::kRate:
      return factors.lr;
    case Follows::kDecay:
      return factors.decay;
    case Follows::kBoth:
      return factors.lr * factors.decay;
  }
  return 1;
}

}  // namespace

UpdateAppender::UpdateAppender(GraphBuilder& builder, const UpdateOptions& options)
    : builder_(builder), options_(options), rule_(FindUpdateRule(options.optimizer)) {}

llvm::Error UpdateAppender::Add(ValueId parameter, ValueId gradient) {
  if (!rule_) return MakeOutput(parameter, gradient);
  const std::string name = builder_.graph().value(parameter).name;
  // An update reads a tensor of its own, never a constant of the graph. The gradient of a term that
  // is added to the loss is such a constant.
  if (builder_.graph().value(gradient).kind != ValueKind::kActivation) {
    ACT_TRY(gradient, builder_.Add1("Identity", {gradient}, {}, name + ".grad"));
  }
  if (options_.accumulate > 1) {
    ACT_TRY(gradient, Accumulate(name, gradient));
  }
  if (options_.clip_norm == 0) {
    if (options_.grad_norm) {
      builder_.SetPhase(Phase::kUpdate);
      ACT_TRY(const ValueId squares, SumOfSquares(gradient, name + ".grad.norm"));
      ACT_CHECK_OK(AddToSum(squares));
      builder_.SetPhase(Phase::kBackward);
    }
    return Update(parameter, gradient, kNoValue);
  }
  waiting_.emplace_back(parameter, gradient);
  return llvm::Error::success();
}

llvm::Error UpdateAppender::Finish() {
  if (!sums_.empty()) {
    builder_.SetPhase(Phase::kUpdate);
    ACT_CHECK_OK(Norm().takeError());
    builder_.SetPhase(Phase::kBackward);
  }
  if (waiting_.empty()) return llvm::Error::success();
  ACT_TRY(const ValueId factor, ClipFactor());
  for (const auto& [parameter, gradient] : waiting_) ACT_CHECK_OK(Update(parameter, gradient, factor));
  return llvm::Error::success();
}

// An output carries its parameter's name, so that parameters which share a gradient (the operands
// of a sum) get copies.
llvm::Error UpdateAppender::MakeOutput(ValueId parameter, ValueId gradient) {
  Graph& graph = builder_.graph();
  const std::string name = graph.value(parameter).name;
  const bool taken = std::find(graph.outputs.begin(), graph.outputs.end(), gradient) != graph.outputs.end();
  if (graph.value(gradient).kind != ValueKind::kActivation || taken) {
    ACT_TRY(gradient, builder_.Add1("Identity", {gradient}, {}, name + ".grad"));
  }
  graph.value(gradient).name = "grad." + name;
  graph.outputs.push_back(gradient);
  return llvm::Error::success();
}

// The sum takes the gradient's place. Nothing else of the gradient outlives the micro-batch.
llvm::Expected<ValueId> UpdateAppender::Accumulate(const std::string& parameter, ValueId gradient) {
  const ValueId sum =
      builder_.Input(parameter + ".grad_sum", builder_.type(gradient), ValueKind::kGradientSum);
  std::vector<ValueId> operands = {sum, gradient};
  ACT_CHECK_OK(AppendScalars(AccumulateRule(), {}, operands));
  ACT_CHECK_OK(builder_.Add(AccumulateRule().op, operands, {}, parameter + ".accumulate", 0).takeError());
  return sum;
}

// min(1, clip_norm / (norm + 1e-6)), as in PyTorch's clip_grad_norm_.
llvm::Expected<ValueId> UpdateAppender::ClipFactor() {
  builder_.SetPhase(Phase::kUpdate);
  std::vector<ValueId> squares;
  for (const auto& [parameter, gradient] : waiting_) {
    ACT_TRY(const ValueId sum, SumOfSquares(gradient, builder_.graph().value(parameter).name + ".grad.norm"));
    squares.push_back(sum);
  }
  for (const ValueId sum : squares) ACT_CHECK_OK(AddToSum(sum));
  ACT_TRY(const ValueId norm, Norm());
  ACT_TRY(const ValueId divisor, builder_.Add1("Add", {norm, builder_.Scalar(1e-6f)}, {}, "clip"));
  const ValueId bound = builder_.Scalar(static_cast<float>(options_.clip_norm));
  ACT_TRY(const ValueId factor, builder_.Add1("Div", {bound, divisor}, {}, "clip"));
  auto clipped = builder_.Add1("Min", {factor, builder_.Scalar(1)}, {}, "clip");
  builder_.SetPhase(Phase::kBackward);
  return clipped;
}

// Adds in pairs, and pairs of pairs, so that the error grows with the logarithm of their number. No more sums
// than that wait for each other.
llvm::Error UpdateAppender::AddToSum(ValueId gradient_squares) {
  sums_.emplace_back(1, gradient_squares);
  while (sums_.size() > 1 && sums_[sums_.size() - 2].first == sums_.back().first) {
    const auto [count, right] = sums_.back();
    sums_.pop_back();
    ACT_TRY(sums_.back().second, builder_.Add1("Add", {sums_.back().second, right}, {}, kNorm));
    sums_.back().first += count;
  }
  return llvm::Error::success();
}

// The root of the sum. It becomes the output after the loss.
llvm::Expected<ValueId> UpdateAppender::Norm() {
  while (sums_.size() > 1) {
    const ValueId right = sums_.back().second;
    sums_.pop_back();
    ACT_TRY(sums_.back().second, builder_.Add1("Add", {sums_.back().second, right}, {}, kNorm));
  }
  ACT_TRY(const ValueId norm, builder_.Add1("Sqrt", {sums_[0].second}, {}, kNorm));
  builder_.graph().outputs.push_back(norm);
  return norm;
}

llvm::Error UpdateAppender::Update(ValueId parameter, ValueId gradient, ValueId factor) {
  if (const StateFormat format = FormatOf(parameter); format != StateFormat::kFloat32)
    return QuantizedUpdate(parameter, gradient, factor, format);
  const std::string name = builder_.graph().value(parameter).name;
  builder_.SetPhase(Phase::kUpdate);
  std::vector<ValueId> operands = {parameter, gradient};
  const std::string prefix = name + ".";
  for (const std::string& state : rule_->state)
    operands.push_back(builder_.Input(prefix + state, builder_.type(parameter), ValueKind::kOptimizer));
  ACT_CHECK_OK(AppendScalars(*rule_, FactorsOf(parameter), operands));
  if (factor != kNoValue) operands.push_back(factor);
  Attributes attrs;
  attrs.Set("gradient", int64_t{1});
  if (rule_->sparse) attrs.Set("sparse", int64_t{1});
  ACT_TRY(const std::vector<ValueId> results, builder_.Add(rule_->op, operands, std::move(attrs),
                                                           name + ".update", rule_->makes_direction ? 1 : 0));
  if (rule_->makes_direction) ACT_CHECK_OK(LambStep(parameter, results[0]));
  builder_.SetPhase(Phase::kBackward);
  return llvm::Error::success();
}

// Small tensors keep their state in float32. In 8 bits a block's numbers share one scale, for which the rows of a table
// that is looked up differ much (docs/optimizers.md). So tables have bfloat16, unless 8 bits are asked for.
StateFormat UpdateAppender::FormatOf(ValueId parameter) const {
  constexpr int64_t kLeast = 4096;
  if (builder_.type(parameter).Elements().At(1) < kLeast) return StateFormat::kFloat32;
  if (options_.state != StateFormat::k8Bit || options_.quantize_tables) return options_.state;
  const std::vector<Node>& nodes = builder_.graph().nodes;
  const bool is_table = std::any_of(nodes.begin(), nodes.end(), [parameter](const Node& node) {
    return OpOf(node).movement == Movement::kGather && node.inputs[0] == parameter;
  });
  return is_table ? StateFormat::kBFloat16 : StateFormat::k8Bit;
}

llvm::Error UpdateAppender::QuantizedUpdate(ValueId parameter, ValueId gradient, ValueId factor,
                                            StateFormat format) {
  const std::string name = builder_.graph().value(parameter).name;
  builder_.SetPhase(Phase::kUpdate);
  std::vector<ValueId> operands = {gradient};
  ACT_CHECK_OK(AppendScalars(*rule_, FactorsOf(parameter), operands));
  operands.push_back(factor != kNoValue ? factor : builder_.Scalar(1));
  operands.push_back(parameter);
  const Dims dims = builder_.type(parameter).dims;
  const int64_t elements = builder_.type(parameter).Elements().At(1);
  const TensorType codes = {DType::kUint8, dims};
  const TensorType maxima = {DType::kFloat32, {Dim((elements + kMomentBlock - 1) / kMomentBlock)}};
  for (const std::string& state : rule_->state) {
    std::string place = name;
    place.append(".").append(state);
    if (format == StateFormat::kBFloat16) {
      operands.push_back(builder_.Input(place, {DType::kBFloat16, dims}, ValueKind::kOptimizer));
    } else {
      operands.push_back(builder_.Input(place + ".codes", codes, ValueKind::kOptimizer));
      operands.push_back(builder_.Input(place + ".maxima", maxima, ValueKind::kOptimizer));
    }
  }
  Attributes attrs;
  attrs.Set("gradients", std::vector<int64_t>{static_cast<int64_t>(rule_->scalars.size()) + 2, 0});
  attrs.Set("decoupled", int64_t{rule_->decoupled});
  // Streams of codes and of dropout count from 0.
  constexpr int64_t kFirstStream = int64_t{1} << 30;
  attrs.Set("stream", kFirstStream + quantized_++);
  ACT_TRY(const std::vector<ValueId> results, builder_.Add(rule_->quantized, operands, std::move(attrs),
                                                           name + ".update", rule_->makes_direction ? 1 : 0));
  if (rule_->makes_direction) ACT_CHECK_OK(LambStep(parameter, results[0]));
  builder_.SetPhase(Phase::kBackward);
  return llvm::Error::success();
}

llvm::Error UpdateAppender::LambStep(ValueId parameter, ValueId direction) {
  const std::string name = builder_.graph().value(parameter).name;
  ACT_TRY(const ValueId length, SumOfSquares(parameter, name + ".norm"));
  ACT_TRY(const ValueId step, SumOfSquares(direction, name + ".update.norm"));
  ACT_TRY(const ValueId rate, Scalar("lr", FactorsOf(parameter)));
  return builder_.Add(LambStepRule().op, {parameter, direction, rate, length, step}, {}, name + ".step", 0)
      .takeError();
}

llvm::Expected<ValueId> UpdateAppender::SumOfSquares(ValueId x, const std::string& name) {
  ACT_TRY(const ValueId squares, builder_.Add1("Mul", {x, x}, {}, name));
  std::vector<int64_t> axes(builder_.type(x).dims.size());
  if (axes.empty()) return squares;
  std::iota(axes.begin(), axes.end(), int64_t{0});
  return builder_.Add1("ReduceSum", {squares}, Over(axes, false), name);
}

llvm::Expected<ValueId> UpdateAppender::Scalar(const std::string& name) {
  Attributes attrs;
  attrs.Set("name", name);
  return builder_.Add1("StepScalar", {}, std::move(attrs), name);
}

UpdateFactors UpdateAppender::FactorsOf(ValueId parameter) const {
  const auto it = options_.factors.find(builder_.graph().value(parameter).name);
  return it == options_.factors.end() ? UpdateFactors{} : it->second;
}

// A factor that a step multiplies by costs a rounding more. Weight decay that is left out costs nothing.
llvm::Expected<ValueId> UpdateAppender::Scalar(const std::string& name, const UpdateFactors& factors) {
  const NamedStepScalar* scalar = FindNamedStepScalar(name);
  const NamedStepScalar* part =
      scalar && scalar->complement ? FindNamedStepScalar(scalar->complement) : nullptr;
  if (part) {  // 1 - part
    const double factor = FactorFor(part->follows, factors);
    if (factor == 1) return Scalar(name);
    if (factor == 0) return builder_.Scalar(1);
    ACT_TRY(const ValueId scaled, Scalar(part->name, factors));
    return builder_.Add1("Sub", {builder_.Scalar(1), scaled}, {}, name);
  }
  const double factor = scalar ? FactorFor(scalar->follows, factors) : 1;
  if (factor == 0) return builder_.Scalar(0);
  ACT_TRY(const ValueId value, Scalar(name));
  if (factor == 1) return value;
  return builder_.Add1("Mul", {value, builder_.Scalar(static_cast<float>(factor))}, {}, name);
}

// Makes one node each time. A later pass merges equal ones.
llvm::Error UpdateAppender::AppendScalars(const UpdateRule& rule, const UpdateFactors& factors,
                                          std::vector<ValueId>& operands) {
  for (const std::string& name : rule.scalars) {
    ACT_TRY(const ValueId scalar, Scalar(name, factors));
    operands.push_back(scalar);
  }
  return llvm::Error::success();
}

}  // namespace act
