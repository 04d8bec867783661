// A direction of a recurrent layer written out step by step in elementary operators, which have
// their own gradients. The formulas are those of ONNX's LSTM, GRU and RNN.
#include "compiler/import/ops/recurrent_layer.h"

namespace act::onnx_import {
namespace {

// The most steps that are written out. Each is some ten nodes, and some thirty with its gradients.
constexpr int64_t kMostSteps = 2048;

class Steps {
 public:
  Steps(NodeContext& context, const RecurrentLayer& layer, const RecurrentDirection& direction)
      : c_(context), layer_(layer), d_(direction) {}

  llvm::Expected<RecurrentResult> Run() {
    ValueId h = d_.h, cell = d_.c;
    if (h == kNoValue) {
      ACT_TRY(h, Zeros());
    }
    if (cell == kNoValue && IsLstm()) {
      ACT_TRY(cell, Zeros());
    }
    std::vector<ValueId> y(static_cast<size_t>(layer_.steps));
    for (int64_t s = 0; s < layer_.steps; ++s) {
      const int64_t t = d_.reverse ? layer_.steps - 1 - s : s;
      ACT_TRY(const ValueId x, RowsAt(t));
      ValueId next_cell = cell, next = kNoValue;
      if (IsLstm()) {
        ACT_TRY(next, LstmStep(x, h, cell, next_cell));
      } else {
        ACT_TRY(next, layer_.op == "GRU" ? GruStep(x, h) : RnnStep(x, h));
      }
      ValueId shown = next;
      if (d_.lengths != kNoValue) {  // after its end a sample keeps its state and outputs 0
        ACT_TRY(const ValueId runs, c_.Emit("Greater", {d_.lengths, Number(static_cast<double>(t))}));
        ACT_TRY(next, c_.Emit("Where", {runs, next, h}));
        if (IsLstm()) {
          ACT_TRY(next_cell, c_.Emit("Where", {runs, next_cell, cell}));
        }
        ACT_TRY(shown, c_.Emit("Where", {runs, next, Number(0)}));
      }
      h = next;
      cell = next_cell;
      ACT_TRY(y[static_cast<size_t>(t)], c_.Reshape(shown, {layer_.batch, Dim(1), Dim(layer_.units)}));
    }
    RecurrentResult result{y[0], h, cell};
    if (y.size() > 1) {
      Attributes attrs;
      attrs.Set("axis", int64_t{1});
      ACT_TRY(result.y, c_.Emit("Concat", y, attrs));
    }
    return result;
  }

 private:
  bool IsLstm() const { return layer_.op == "LSTM"; }
  ValueId Number(double value) { return c_.builder().Scalar(static_cast<float>(value)); }
  llvm::Expected<ValueId> Zeros() {
    return c_.builder().Expand(Number(0), {layer_.batch, Dim(layer_.units)}, c_.name());
  }

  // The part of the last axis that belongs to `count` gates from gate `first` on.
  llvm::Expected<ValueId> Gate(ValueId x, int64_t first, int64_t count = 1) {
    Dims dims = c_.TypeOf(x).dims;
    std::vector<int64_t> starts(dims.size(), 0);
    starts.back() = first * layer_.units;
    dims.back() = count * layer_.units;
    if (dims == c_.TypeOf(x).dims) return x;
    return c_.builder().Slice(x, starts, dims, std::vector<int64_t>(dims.size(), 1), c_.name());
  }

  // What the input adds at time t, [N,G H].
  llvm::Expected<ValueId> RowsAt(int64_t t) {
    const Dim width(layer_.gates * layer_.units);
    ACT_TRY(const ValueId row,
            c_.builder().Slice(d_.x, {0, t, 0}, {layer_.batch, Dim(1), width}, {1, 1, 1}, c_.name()));
    return c_.Reshape(row, {layer_.batch, width});
  }

  // h times the recurrent weights of `count` gates from `first` on, [N,count H].
  llvm::Expected<ValueId> Product(ValueId h, int64_t first, int64_t count) {
    ValueId weights = d_.weights;
    if (count != layer_.gates) {
      const Dim units(layer_.units);
      ACT_TRY(weights, c_.builder().Slice(weights, {first * layer_.units, 0}, {Dim(count) * units, units},
                                          {1, 1}, c_.name()));
    }
    Attributes attrs;
    attrs.Set("trans_b", int64_t{1});
    return c_.Emit("MatMul", {h, weights}, attrs);
  }

  // The cell's i-th activation, applied after the clip.
  llvm::Expected<ValueId> Activate(size_t i, ValueId x) {
    if (layer_.clip) {
      Attributes bounds;
      bounds.Set("min", -*layer_.clip);
      bounds.Set("max", *layer_.clip);
      ACT_TRY(x, c_.Emit("Clip", {x}, bounds));
    }
    const Activation& a = d_.activations[i];
    if (a.name == "ThresholdedRelu") {
      ACT_TRY(const ValueId above, c_.Emit("Greater", {x, Number(a.alpha)}));
      return c_.Emit("Where", {above, x, Number(0)});
    }
    if (a.name == "ScaledTanh") {
      ACT_TRY(const ValueId scaled, c_.Emit("Mul", {x, Number(a.beta)}));
      ACT_TRY(const ValueId y, c_.Emit("Tanh", {scaled}));
      return c_.Emit("Mul", {y, Number(a.alpha)});
    }
    if (a.name == "Affine") {
      ACT_TRY(const ValueId scaled, c_.Emit("Mul", {x, Number(a.alpha)}));
      return c_.Emit("Add", {scaled, Number(a.beta)});
    }
    Attributes attrs;
    attrs.Set("alpha", a.alpha);
    attrs.Set("beta", a.beta);
    return c_.Emit(a.name, {x}, attrs);
  }

  // x plus the cell times the weights of peephole `i`.
  llvm::Expected<ValueId> AddPeephole(ValueId x, int64_t i, ValueId cell) {
    if (d_.peepholes == kNoValue) return x;
    ACT_TRY(const ValueId weights, Gate(d_.peepholes, i));
    ACT_TRY(const ValueId seen, c_.Emit("Mul", {cell, weights}));
    return c_.Emit("Add", {x, seen});
  }

  llvm::Expected<ValueId> LstmStep(ValueId x, ValueId h, ValueId cell, ValueId& next_cell) {
    ACT_TRY(const ValueId product, Product(h, 0, 4));
    ACT_TRY(const ValueId sum, c_.Emit("Add", {x, product}));
    ValueId gate[4];
    for (int64_t g = 0; g < 4; ++g) {
      ACT_TRY(gate[g], Gate(sum, g));
    }
    ACT_TRY(gate[0], AddPeephole(gate[0], 0, cell));
    ACT_TRY(const ValueId input, Activate(0, gate[0]));
    ValueId forget = kNoValue;
    if (layer_.input_forget) {
      ACT_TRY(forget, c_.Emit("Sub", {Number(1), input}));
    } else {
      ACT_TRY(gate[2], AddPeephole(gate[2], 2, cell));
      ACT_TRY(forget, Activate(0, gate[2]));
    }
    ACT_TRY(const ValueId candidate, Activate(1, gate[3]));
    ACT_TRY(const ValueId kept, c_.Emit("Mul", {forget, cell}));
    ACT_TRY(const ValueId added, c_.Emit("Mul", {input, candidate}));
    ACT_TRY(next_cell, c_.Emit("Add", {kept, added}));
    ACT_TRY(gate[1], AddPeephole(gate[1], 1, next_cell));
    ACT_TRY(const ValueId output, Activate(0, gate[1]));
    ACT_TRY(const ValueId squashed, Activate(2, next_cell));
    return c_.Emit("Mul", {output, squashed});
  }

  llvm::Expected<ValueId> GruStep(ValueId x, ValueId h) {
    ACT_TRY(const ValueId product, Product(h, 0, 2));
    ACT_TRY(const ValueId from_x, Gate(x, 0, 2));
    ACT_TRY(const ValueId sum, c_.Emit("Add", {from_x, product}));
    ACT_TRY(const ValueId update_in, Gate(sum, 0));
    ACT_TRY(const ValueId reset_in, Gate(sum, 1));
    ACT_TRY(const ValueId update, Activate(0, update_in));
    ACT_TRY(const ValueId reset, Activate(0, reset_in));
    ValueId recurrent = kNoValue;
    if (layer_.linear_before_reset) {
      ACT_TRY(recurrent, Product(h, 2, 1));
      if (d_.candidate_bias != kNoValue) {
        ACT_TRY(recurrent, c_.Emit("Add", {recurrent, d_.candidate_bias}));
      }
      ACT_TRY(recurrent, c_.Emit("Mul", {reset, recurrent}));
    } else {
      ACT_TRY(const ValueId gated, c_.Emit("Mul", {reset, h}));
      ACT_TRY(recurrent, Product(gated, 2, 1));
    }
    ACT_TRY(const ValueId candidate_x, Gate(x, 2));
    ACT_TRY(const ValueId candidate_in, c_.Emit("Add", {candidate_x, recurrent}));
    ACT_TRY(const ValueId candidate, Activate(1, candidate_in));
    // (1 - z) n + z h = n + z (h - n)
    ACT_TRY(const ValueId step, c_.Emit("Sub", {h, candidate}));
    ACT_TRY(const ValueId kept, c_.Emit("Mul", {update, step}));
    return c_.Emit("Add", {candidate, kept});
  }

  llvm::Expected<ValueId> RnnStep(ValueId x, ValueId h) {
    ACT_TRY(const ValueId product, Product(h, 0, 1));
    ACT_TRY(const ValueId sum, c_.Emit("Add", {x, product}));
    return Activate(0, sum);
  }

  NodeContext& c_;
  const RecurrentLayer& layer_;
  const RecurrentDirection& d_;
};

}  // namespace

llvm::Expected<RecurrentResult> EmitSteps(NodeContext& c, const RecurrentLayer& layer,
                                          const RecurrentDirection& d) {
  if (layer.steps > kMostSteps)
    return c.Fail(
        "has " + std::to_string(layer.steps) + " steps; this form of cell is written out and may have " +
            std::to_string(kMostSteps),
        "standard activations without clip, peepholes and sequence_lens (GRU: linear_before_reset=1) have "
        "no such limit");
  return Steps(c, layer, d).Run();
}

}  // namespace act::onnx_import
