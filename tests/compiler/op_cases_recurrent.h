// Rows of recurrent cells: the formulas of ONNX's LSTM, GRU and RNN, one number at a time.
#pragma once

#include "tests/compiler/op_cases_elementwise.h"

namespace act::gradient_case {

inline double Logistic(double x) { return 1 / (1 + std::exp(-x)); }

// One direction of a layer: batch, steps, units, and which operands are present.
struct RecurrentRow {
  int64_t n, t, h;
  bool reverse = false;
  bool states = false;              // initial states, and a bias inside the reset product
  const char* activation = "Tanh";  // of Rnn
};

inline const std::vector<RecurrentRow>& RecurrentRows() {
  static const std::vector<RecurrentRow> rows = {
      {2, 3, 5},
      {2, 3, 5, true},
      {3, 4, 2, false, true},
      {2, 5, 3, true, true},
      {1, 6, 4},
      {4, 1, 3, true, true},
      {2, 2, 1},
      {3, 2, 7, false, true},
  };
  return rows;
}

// Calls step(sample, time, h, next) for each sample, with steps in order. h is the state before the
// step; the call fills `next` with the state after it. Returns y, [N,T,H].
template <class F>
Tensor RunLoop(const RecurrentRow& row, const Tensor* initial, F step) {
  Tensor y({row.n, row.t, row.h});
  for (int64_t n = 0; n < row.n; ++n) {
    std::vector<double> h(static_cast<size_t>(row.h), 0.0), next = h;
    for (size_t j = 0; initial && j < h.size(); ++j) h[j] = initial->at({n, static_cast<int64_t>(j)});
    for (int64_t s = 0; s < row.t; ++s) {
      const int64_t t = row.reverse ? row.t - 1 - s : s;
      step(n, t, h, next);
      h = next;
      for (int64_t j = 0; j < row.h; ++j) y.at({n, t, j}) = h[static_cast<size_t>(j)];
    }
  }
  return y;
}

// Row `gate` h + j of the recurrent weights times h.
inline double RecurrentSum(const RecurrentRow& row, const Tensor& weights, int64_t gate, int64_t j,
                           const std::vector<double>& h) {
  double sum = 0;
  for (int64_t k = 0; k < row.h; ++k) sum += weights.at({gate * row.h + j, k}) * h[static_cast<size_t>(k)];
  return sum;
}

// Pre-activations and weights for which no activation saturates.
inline std::vector<Operand> RecurrentOperands(const RecurrentRow& row, int64_t gates) {
  return {{{row.n, row.t, gates * row.h}}, {{gates * row.h, row.h}, -1, 1}};
}

inline OpCase LstmCase(const RecurrentRow& row) {
  OpCase c{std::string("Lstm") + (row.reverse ? " reverse" : "") + (row.states ? " with states" : ""),
           RecurrentOperands(row, 4),
           // y and the last cell states are in one result, so that both have a gradient.
           [row](GraphBuilder& b, const Values& v) -> llvm::Expected<ValueId> {
             const auto out = Take(b.Add("Lstm", v, Attrs({{"reverse", int64_t{row.reverse}}}), "tested", 5));
             const Dims dims = b.type(out[0]).dims;
             return b.Add1("Add", {out[0], Take(b.Reshape(out[1], {dims[0], 1, dims[2]}))});
           },
           [row](const Tensors& t) {
             Tensor cell({row.n, row.h});
             if (row.states) cell = t[3];
             Tensor y =
                 RunLoop(row, row.states ? &t[2] : nullptr,
                         [&](int64_t n, int64_t at, const std::vector<double>& h, std::vector<double>& next) {
                           for (int64_t j = 0; j < row.h; ++j) {
                             const auto gate = [&](int64_t g) {
                               return t[0].at({n, at, g * row.h + j}) + RecurrentSum(row, t[1], g, j, h);
                             };
                             double& own = cell.at({n, j});
                             own = Logistic(gate(2)) * own + Logistic(gate(0)) * std::tanh(gate(3));
                             next[static_cast<size_t>(j)] = Logistic(gate(1)) * std::tanh(own);
                           }
                         });
             return truth::Make(y.dims, [&](const Ints& i) { return y.at(i) + cell.at({i[0], i[2]}); });
           },
           {0}};
  if (row.states) {
    c.operands.insert(c.operands.end(), {{{row.n, row.h}}, {{row.n, row.h}}});
    c.batched = {0, 2, 3};
  }
  return c;
}

inline OpCase GruCase(const RecurrentRow& row) {
  OpCase c{std::string("Gru") + (row.reverse ? " reverse" : "") + (row.states ? " with states" : ""),
           RecurrentOperands(row, 3),
           [row](GraphBuilder& b, const Values& v) -> llvm::Expected<ValueId> {
             return Take(b.Add("Gru", v, Attrs({{"reverse", int64_t{row.reverse}}}), "tested", 4))[0];
           },
           [row](const Tensors& t) {
             return RunLoop(
                 row, row.states ? &t[3] : nullptr,
                 [&](int64_t n, int64_t at, const std::vector<double>& h, std::vector<double>& next) {
                   for (int64_t j = 0; j < row.h; ++j) {
                     const auto x = [&](int64_t g) { return t[0].at({n, at, g * row.h + j}); };
                     const auto product = [&](int64_t g) { return RecurrentSum(row, t[1], g, j, h); };
                     const double z = Logistic(x(0) + product(0)), r = Logistic(x(1) + product(1));
                     const double q = product(2) + (row.states ? t[2].at({j}) : 0);
                     const double before = h[static_cast<size_t>(j)];
                     next[static_cast<size_t>(j)] = (1 - z) * std::tanh(x(2) + r * q) + z * before;
                   }
                 });
           },
           {0}};
  if (row.states) {
    c.operands.insert(c.operands.end(), {{{row.h}}, {{row.n, row.h}}});
    c.batched = {0, 3};
  }
  return c;
}

inline OpCase RnnCase(const RecurrentRow& row) {
  const bool relu = row.activation == std::string("Relu");
  OpCase c{
      std::string("Rnn ") + row.activation + (row.reverse ? " reverse" : "") +
          (row.states ? " with state" : ""),
      RecurrentOperands(row, 1),
      [row](GraphBuilder& b, const Values& v) {
        return b.Add1("Rnn", v,
                      Attrs({{"reverse", int64_t{row.reverse}}, {"activation", std::string(row.activation)}}),
                      "tested");
      },
      [row, relu](const Tensors& t) {
        return RunLoop(row, row.states ? &t[2] : nullptr,
                       [&](int64_t n, int64_t at, const std::vector<double>& h, std::vector<double>& next) {
                         for (int64_t j = 0; j < row.h; ++j) {
                           const double x = t[0].at({n, at, j}) + RecurrentSum(row, t[1], 0, j, h);
                           next[static_cast<size_t>(j)] = relu ? std::max(x, 0.0) : std::tanh(x);
                         }
                       });
      },
      {0}};
  if (row.states) {
    c.operands.push_back({{row.n, row.h}});
    c.batched = {0, 2};
  }
  return c;
}

inline std::vector<OpCase> RecurrentCases() {
  std::vector<OpCase> cases;
  for (RecurrentRow row : RecurrentRows()) {
    cases.push_back(LstmCase(row));
    cases.push_back(GruCase(row));
    cases.push_back(RnnCase(row));
    row.activation = "Relu";
    cases.push_back(RnnCase(row));
  }
  return cases;
}

}  // namespace act::gradient_case
