// Nodes with bfloat16 operands and results, made of those with float32 (docs/runtime_ops.md, "bfloat16").
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "kernels/math/convert.h"
#include "runtime/plan/runtime_op.h"
#include "tests/unit/batch_norm_cases.h"
#include "tests/unit/gather_cases.h"
#include "tests/unit/loss_cases.h"
#include "tests/unit/movement_case.h"
#include "tests/unit/pool_case.h"
#include "tests/unit/reduce_cases.h"

namespace act {

// A float32 tensor, rounded.
inline TestTensor Narrow(const TestTensor& wide) {
  TestTensor t = Empty(wide.dims, DType::kBFloat16);
  for (int64_t i = 0; i < t.elements(); ++i) t.as<BFloat16>()[i] = FromFloat<BFloat16>(wide.as<float>()[i]);
  return t;
}
inline TestTensor Widen(const TestTensor& narrow) {
  TestTensor t = Empty(narrow.dims);
  for (int64_t i = 0; i < t.elements(); ++i) t.as<float>()[i] = ToFloat(narrow.as<BFloat16>()[i]);
  return t;
}

// A node with float32, and the same with bfloat16 wherever its operator may have it. The operands have the
// same values in both.
struct BothTypes {
  OpCase wide, narrow;
};

inline BothTypes InBothTypes(OpCase c) {
  const BFloat16s letters = FindRuntimeOp(c.op)->bfloat16;
  BothTypes both{c, c};
  const auto may_be = [](std::string_view places, size_t i, const TestTensor& t) {
    return t.present && t.dtype == DType::kFloat32 && BFloat16Letter(places, i) != '-';
  };
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    if (!may_be(letters.operands, i, c.inputs[i])) continue;
    both.narrow.inputs[i] = Narrow(c.inputs[i]);
    both.wide.inputs[i] = Widen(both.narrow.inputs[i]);
  }
  for (size_t i = 0; i < c.outputs.size(); ++i)
    if (may_be(letters.results, i, c.outputs[i]))
      both.narrow.outputs[i] = Empty(c.outputs[i].dims, DType::kBFloat16);
  return both;
}

// The node with one float32 operand or result in bfloat16, for each place where the table does not allow
// that.
inline std::vector<BothTypes> WithOneBFloat16(const OpCase& c) {
  const auto is_wrong = [](const OpCase& n) {
    Graph graph;
    Node node;
    node.op = n.op;
    const auto add = [&graph](const TestTensor& t) {
      if (!t.present) return kNoValue;
      graph.values.push_back({"", {t.dtype, Dims(t.dims.begin(), t.dims.end())}, ValueKind::kActivation, {}});
      return static_cast<ValueId>(graph.values.size() - 1);
    };
    for (const TestTensor& t : n.inputs) node.inputs.push_back(add(t));
    for (const TestTensor& t : n.outputs) node.outputs.push_back(add(t));
    return WrongBFloat16(graph, node).has_value();
  };
  std::vector<BothTypes> cases;
  const auto add = [&](const BothTypes& both) {
    if (is_wrong(both.narrow)) cases.push_back(both);
  };
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    if (!c.inputs[i].present || c.inputs[i].dtype != DType::kFloat32) continue;
    BothTypes both{c, c};
    both.narrow.inputs[i] = Narrow(c.inputs[i]);
    both.wide.inputs[i] = Widen(both.narrow.inputs[i]);
    add(both);
  }
  for (size_t i = 0; i < c.outputs.size(); ++i) {
    if (!c.outputs[i].present || c.outputs[i].dtype != DType::kFloat32) continue;
    BothTypes both{c, c};
    both.narrow.outputs[i] = Empty(c.outputs[i].dims, DType::kBFloat16);
    add(both);
  }
  return cases;
}

// Products, whose kernels round float32 factors too. conv_test, matmul_test, packed_grad_weight_test and
// attention_test compare them.
inline bool IsProduct(const RuntimeOp& op) {
  return BFloat16Letter(op.bfloat16.results, 0) == 'r' || op.name == "ConvGradWeight";
}

// Cases with float32 for every other operator that has a kernel of its own and may have bfloat16.
inline std::vector<OpCase> Float32Cases() {
  std::vector<OpCase> cases;
  const auto add = [&cases](const OpCase& c, const std::string&) { cases.push_back(c); };
  for (const PoolCase& pool : PoolCases())
    for (const bool flag : {false, true}) {
      const DType index = flag ? DType::kInt32 : DType::kUint8;
      for (const OpCase& c :
           {pool.Max(index), pool.MaxGrad(index), pool.Average(flag), pool.AverageGrad(flag)})
        cases.push_back(c);
    }
  // More channels than a kernel takes at once.
  const PoolCase wide{{1, 5, 5, 700}, {3, 3}, {2, 2}, {1, 1, 1, 1}};
  for (const OpCase& c :
       {wide.Max(DType::kUint8), wide.MaxGrad(DType::kUint8), wide.Average(false), wide.AverageGrad(true)})
    cases.push_back(c);
  ForReduceCases(add);
  ForBatchNormCases(add);
  ForBatchNormCases(
      [&cases](const OpCase& c, const std::string&) { cases.push_back(BatchNormMomentsCase(c.inputs[0])); });
  ForLossCases([&cases](const OpCase& c, const std::string&) {
    if (c.op == "SoftmaxCrossEntropyGrad") cases.push_back(c);
  });
  ForGatherCases(kLookups, [&cases](const OpCase& c) {
    if (c.inputs[0].dtype == DType::kFloat32) cases.push_back(c);
  });
  for (const auto& more : {TransposeCases(), ConcatCases(), SliceCases(), PadCases()})
    for (const OpCase& c : more)
      if (c.inputs[0].dtype == DType::kFloat32) cases.push_back(c);
  for (const OpCase& c : SliceCases()) cases.push_back(SliceGrad(c));
  for (const std::string op : {"SwapOut", "SwapIn"})
    cases.push_back({op, {}, {Random({300, 117}, 1)}, {Empty({300, 117})}, {}, {}});
  return cases;
}

// What the narrow kernel makes must be what the float32 kernel of the same name makes of the same values,
// rounded once where it is bfloat16: then sums are added up in float32 and in the same order.
inline void ExpectRounded(const KernelEntry& entry, const BothTypes& both, int threads, int64_t workspace) {
  const OpResult wide = RunKernel(entry, both.wide, threads, workspace);
  const OpResult narrow = RunKernel(entry, both.narrow, threads, workspace);
  ASSERT_EQ(narrow.refused, wide.refused) << narrow.error << wide.error;
  ASSERT_EQ(narrow.error, wide.error);
  for (size_t i = 0; i < wide.tensors.size(); ++i) {
    const TestTensor& made = narrow.tensors[i];
    if (!made.present) continue;
    const TestTensor expected = made.dtype == DType::kBFloat16 ? Narrow(wide.tensors[i]) : wide.tensors[i];
    ASSERT_EQ(made.bytes, expected.bytes) << "tensor " << i;
  }
}

inline std::string Describe(const OpCase& c) {
  std::string s = c.op;
  for (const std::vector<TestTensor>* tensors : {&c.inputs, &c.outputs}) {
    s += tensors == &c.inputs ? " of" : " to";
    for (const TestTensor& t : *tensors)
      s += t.present ? " " + std::string(ToString(t.dtype)) + DimsText(t.dims) : " nothing";
  }
  return s;
}

}  // namespace act
