// Updates of a table of which rows have a gradient.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/unit/gather_cases.h"
#include "tests/unit/quantized_update_case.h"

namespace act {

struct TableRows {
  std::vector<int64_t> table;
  int64_t indices = 0;
  DType index = DType::kInt64;
  bool live = false;
};

// Sets the attribute, and appends the rows' index and flags.
inline void AppendIndex(OpCase& c, const TableRows& t, int64_t table, int64_t rows, unsigned seed) {
  c.attrs.Set("row_gradient", std::vector<int64_t>{table, rows, static_cast<int64_t>(c.inputs.size())});
  std::vector<int64_t> dims(t.table.size(), 1);
  dims[0] = t.indices;
  c.inputs.push_back(Indices(dims, std::max<int64_t>(t.table[0], 1), seed, t.index));
  if (t.live) c.inputs.push_back(Flags(t.indices));
}

inline TestTensor RowsOf(const TableRows& t, unsigned seed) {
  std::vector<int64_t> dims = t.table;
  dims[0] = t.indices;
  return Random(dims, seed);
}

// p -= lr v with v = momentum v + g; operands p, g, v, lr, momentum.
inline OpCase UpdateRowsCase(const TableRows& t, unsigned seed) {
  enum { kP, kG, kV, kLr, kMomentum, kNext, kStep, kNew };
  OpCase c;
  c.op = "UpdateRows";
  c.inputs = {Random(t.table, seed), RowsOf(t, seed + 1), Random(t.table, seed + 2), Floats({}, {.1f}),
              Floats({}, {.9f})};
  c.mutates = {kP, kV};
  c.program.space = Dims(t.table.begin(), t.table.end());
  c.program.inputs.resize(c.inputs.size());
  c.program.instrs = {
      {Opcode::kFma, kMomentum, kV, kG}, {Opcode::kMul, kLr, kNext}, {Opcode::kSub, kP, kStep}};
  c.program.outputs = {{OutputKind::kStore, kNew, {}, 0}, {OutputKind::kStore, kNext, {}, 0}};
  AppendIndex(c, t, kP, kG, seed + 3);
  return c;
}

// p -= lr (g + decay p); operands p, g, lr, decay.
inline OpCase SparseRowsCase(const TableRows& t, unsigned seed, float decay) {
  enum { kP, kG, kLr, kDecay, kDecayed, kStep, kNew };
  OpCase c;
  c.op = "UpdateRows";
  c.attrs.Set("sparse", int64_t{1});
  c.state.update.hyper.weight_decay = static_cast<double>(decay);
  c.inputs = {Random(t.table, seed), RowsOf(t, seed + 1), Floats({}, {.1f}), Floats({}, {decay})};
  c.mutates = {kP};
  c.program.space = Dims(t.table.begin(), t.table.end());
  c.program.inputs.resize(c.inputs.size());
  c.program.instrs = {
      {Opcode::kFma, kDecay, kP, kG}, {Opcode::kMul, kLr, kDecayed}, {Opcode::kSub, kP, kStep}};
  c.program.outputs = {{OutputKind::kStore, kNew, {}, 0}};
  AppendIndex(c, t, kP, kG, seed + 3);
  return c;
}

// An update of state in few bits, with rows in the gradient's place.
inline OpCase QuantizedRowsCase(const TableRows& t, unsigned seed, const QuantizedUpdate& update = {}) {
  OpCase c = update.Case(ElementCount(t.table), seed);
  c.op += "Rows";
  c.inputs[update.parameter()].dims = t.table;
  for (size_t i = 0; i < update.states(); ++i) c.inputs[update.state(i)].dims = t.table;
  c.inputs[0] = RowsOf(t, seed + 5);
  AppendIndex(c, t, static_cast<int64_t>(update.parameter()), 0, seed + 6);
  return c;
}

// One of each form of update by rows.
inline std::vector<OpCase> AllRowsCases(const TableRows& t, unsigned seed) {
  std::vector<OpCase> all = {UpdateRowsCase(t, seed)};
  for (const QuantizedUpdate& update : AllQuantizedUpdates())
    if (!update.makes_direction()) all.push_back(QuantizedRowsCase(t, seed, update));
  return all;
}

}  // namespace act
