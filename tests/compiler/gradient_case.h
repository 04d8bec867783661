// One operator, or a few, against an independent evaluation in double precision.
//
// The loss is the sum of the result times random weights. Forward values and gradients come from the whole
// pipeline (passes, storage, layout, executor); the truth from an evaluator written for the test and its
// finite differences.
#pragma once

#include <cmath>
#include <random>

#include "tests/compiler/compiled_step.h"
#include "tests/compiler/double_tensor.h"

namespace act::gradient_case {

using testing_step::Take;
using truth::Ints;
using truth::Tensor;

enum class Kind {
  kTrained,  // f32 parameter: its gradient is checked
  kFixed,    // f32 input
  kBuffer,   // f32, kept between steps
  kIndex,    // i64 input: floor of the random number
  kFlag,     // bool input: is the random number positive?
};

struct Operand {
  Ints dims;
  // Of the random elements; where a function has kinks or poles, away from them.
  double low = -2, high = 2;
  Kind kind = Kind::kTrained;
};

// A row of the tables in op_cases_*.h.
struct OpCase {
  std::string name;
  std::vector<Operand> operands;
  std::function<llvm::Expected<ValueId>(GraphBuilder&, const std::vector<ValueId>&)> build;
  std::function<Tensor(const std::vector<Tensor>&)> truth;
  // Operands whose leading axis counts samples in a second run of the case, at batch size N.
  std::vector<size_t> batched = {};

  // A batch has at least one sample.
  bool RunsAtBatch() const { return !batched.empty() && operands[batched[0]].dims[0] > 0; }
};

inline std::vector<double> RandomNumbers(const Operand& operand, unsigned seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> uniform(static_cast<float>(operand.low),
                                                static_cast<float>(operand.high));
  std::vector<double> numbers(static_cast<size_t>(truth::Count(operand.dims)));
  for (double& x : numbers) {
    x = uniform(engine);
    if (operand.kind == Kind::kIndex) x = std::floor(x);
    if (operand.kind == Kind::kFlag) x = x > 0;
  }
  return numbers;
}

inline std::vector<float> Rounded(const std::vector<double>& numbers) {
  return {numbers.begin(), numbers.end()};
}

// A case as a model, and the function that it computes.
class CaseModel {
 public:
  // at_batch: the leading axis of `batched` operands is N. Such an operand is x + z p with x [N, ..] and z
  // [N, 1, ..] given and p [1, ..] trained, so that p's gradient is a random projection of the operand's.
  CaseModel(const OpCase& c, bool at_batch, bool show_result) : case_(c), builder_(graph_) {
    for (size_t i = 0; i < c.operands.size(); ++i) AddOperand(i, at_batch && IsBatched(i));
    const ValueId y = Take(c.build(builder_, operands_));
    const TensorType type = builder_.type(y);
    const Operand weights{DimsAt(type.dims, batch_), -1, 1};
    const ValueId w = builder_.Input("weights", type, ValueKind::kInput);
    inputs_["weights"] = testing_step::BytesOf(Rounded(weights_ = RandomNumbers(weights, 99)));
    ValueId loss = Take(builder_.Add1("Mul", {y, w}));
    if (type.rank() > 0) {
      Attributes axes;
      Ints all(static_cast<size_t>(type.rank()));
      std::iota(all.begin(), all.end(), 0);
      axes.Set("axes", all);
      axes.Set("keepdims", int64_t{0});
      loss = Take(builder_.Add1("ReduceSum", {loss}, axes));
    }
    graph_.outputs = {loss};
    if (show_result) graph_.outputs.push_back(y);
  }

  const Graph& graph() const { return graph_; }
  const testing_step::StepInputs& inputs() const { return inputs_; }
  int64_t batch() const { return batch_; }

  struct Parameter {
    std::string name;
    size_t operand;
    Tensor value;
  };
  const std::vector<Parameter>& Parameters() const { return parameters_; }

  // The result where the parameter of operand `moved` has the value `value`.
  Tensor Result(size_t moved = SIZE_MAX, const Tensor& value = Tensor()) const {
    std::vector<Tensor> operands;
    for (size_t i = 0; i < given_.size(); ++i) {
      const Tensor& p = i == moved ? value : trained_[i];
      if (factor_[i].data.empty()) {
        operands.push_back(case_.operands[i].kind == Kind::kTrained ? p : given_[i]);
      } else {
        const Tensor zp = truth::Map(factor_[i], p, [](double z, double q) { return z * q; });
        operands.push_back(truth::Map(given_[i], zp, [](double x, double d) { return x + d; }));
      }
    }
    return case_.truth(operands);
  }
  double Loss(const Tensor& y) const {
    double sum = 0;
    for (size_t i = 0; i < y.data.size(); ++i) sum += y.data[i] * weights_[i];
    return sum;
  }
  // Central differences. In double, so that the step costs neither truncation (h^2 / 6 f''') nor cancellation
  // (1e-16 / h) that a float32 result could show.
  Tensor Gradient(const Parameter& p) const {
    constexpr double h = 1e-5;
    Tensor gradient(p.value.dims), moved = p.value;
    for (size_t i = 0; i < moved.data.size(); ++i) {
      const double x = moved.data[i];
      moved.data[i] = x + h;
      const double above = Loss(Result(p.operand, moved));
      moved.data[i] = x - h;
      gradient.data[i] = (above - Loss(Result(p.operand, moved))) / (2 * h);
      moved.data[i] = x;
    }
    return gradient;
  }

 private:
  bool IsBatched(size_t i) const {
    return std::find(case_.batched.begin(), case_.batched.end(), i) != case_.batched.end();
  }

  void AddOperand(size_t i, bool batched) {
    const Operand& o = case_.operands[i];
    const std::string name = "operand" + std::to_string(i);
    Dims dims(o.dims.begin(), o.dims.end());
    if (batched) {
      batch_ = o.dims[0];
      dims[0] = Dim::Batch();
    }
    Tensor numbers(o.dims);
    numbers.data = RandomNumbers(o, static_cast<unsigned>(i + 1));
    given_.push_back(numbers);
    trained_.emplace_back();
    factor_.emplace_back(Ints{0});
    const std::vector<float> floats = Rounded(numbers.data);
    const TensorType type{DType::kFloat32, dims};
    if (o.kind == Kind::kIndex) {
      operands_.push_back(builder_.Input(name, {DType::kInt64, dims}, ValueKind::kInput));
      inputs_[name] = testing_step::BytesOf(std::vector<int64_t>(numbers.data.begin(), numbers.data.end()));
    } else if (o.kind == Kind::kFlag) {
      operands_.push_back(builder_.Input(name, {DType::kBool, dims}, ValueKind::kInput));
      inputs_[name] = testing_step::BytesOf(std::vector<uint8_t>(numbers.data.begin(), numbers.data.end()));
    } else if (o.kind == Kind::kBuffer) {
      operands_.push_back(builder_.Input(name, type, ValueKind::kBuffer, testing_step::HostFloats(floats)));
    } else if (o.kind == Kind::kTrained && !batched) {
      operands_.push_back(
          builder_.Input(name, type, ValueKind::kParameter, testing_step::HostFloats(floats)));
      trained_[i] = numbers;
      parameters_.push_back({name, i, numbers});
    } else {
      operands_.push_back(builder_.Input(name, type, ValueKind::kInput));
      inputs_[name] = testing_step::BytesOf(floats);
      if (o.kind == Kind::kTrained) AddProjection(i);
    }
  }

  void AddProjection(size_t i) {
    const std::string name = "operand" + std::to_string(i);
    Dims z = builder_.type(operands_[i]).dims, p = z;
    std::fill(z.begin() + 1, z.end(), Dim(1));
    p[0] = 1;
    // Small, so that the operand stays where the row wants it.
    factor_[i] = Tensor(DimsAt(z, batch_));
    factor_[i].data = RandomNumbers({factor_[i].dims, -.01, .01}, static_cast<unsigned>(i + 51));
    trained_[i] = Tensor(DimsAt(p, batch_));
    trained_[i].data = RandomNumbers({trained_[i].dims, -1, 1}, static_cast<unsigned>(i + 71));
    inputs_[name + ".z"] = testing_step::BytesOf(Rounded(factor_[i].data));
    const ValueId zv = builder_.Input(name + ".z", {DType::kFloat32, z}, ValueKind::kInput);
    const ValueId pv = builder_.Input(name + ".p", {DType::kFloat32, p}, ValueKind::kParameter,
                                      testing_step::HostFloats(Rounded(trained_[i].data)));
    parameters_.push_back({name + ".p", i, trained_[i]});
    operands_[i] = Take(builder_.Add1("Add", {operands_[i], Take(builder_.Add1("Mul", {zv, pv}))}));
  }

  const OpCase& case_;
  Graph graph_;
  GraphBuilder builder_;
  std::vector<ValueId> operands_;
  std::vector<Parameter> parameters_;
  std::vector<Tensor> given_, trained_,
      factor_;  // by operand; factor_ is empty where the operand is not projected
  std::vector<double> weights_;
  testing_step::StepInputs inputs_;
  int64_t batch_ = 1;
};

// Largest difference over the largest magnitude of the truth, where that is not next to nothing; NaN is
// infinitely far.
inline double Distance(const std::vector<float>& got, const Tensor& want) {
  double scale = 1e-3, worst = 0;
  for (double w : want.data) scale = std::max(scale, std::fabs(w));
  for (size_t i = 0; i < want.data.size(); ++i) {
    const double d = std::fabs(static_cast<double>(got[i]) - want.data[i]);
    worst = std::isnan(d) ? INFINITY : std::max(worst, d);
  }
  return worst / scale;
}

// Kernels compute in float32 (2^-24 = 6e-8 a rounding) and sum at most a few hundred terms; the least well
// conditioned rows, statistics of few elements and quotients, lose two digits more. A wrong gradient is off
// by 1e-2 and more.
inline constexpr double kTolerance = 3e-5;

}  // namespace act::gradient_case
