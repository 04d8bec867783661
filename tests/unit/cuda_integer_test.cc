// Integer and IntegerReduce on a card: the reference's bits, for every operation.
#include <algorithm>
#include <limits>

#include "kernels/cuda/registry.h"
#include "kernels/site/strided.h"
#include "runtime/plan/integer_op.h"
#include "tests/unit/cuda_testing.h"

namespace act {
namespace {

using Ints = std::vector<int64_t>;

// Numbers of every size, with the limits of the type among them; flags of a bool.
TestTensor Numbers(const Ints& dims, DType dtype, unsigned seed) {
  TestTensor t = Empty(dims, dtype);
  std::mt19937_64 engine(seed);
  const auto size = static_cast<size_t>(ByteSize(dtype));
  for (size_t i = 0; i < static_cast<size_t>(t.elements()); ++i) {
    uint64_t number = engine() >> engine() % 64;
    if (engine() % 8 == 0) number = ~number;  // small negative ones
    if (i % 11 == 0) number = uint64_t{1} << (8 * size - 1);
    if (i % 13 == 0) number = (uint64_t{1} << (8 * size - 1)) - 1;
    if (dtype == DType::kBool) number &= 1;
    std::memcpy(t.bytes.data() + i * size, &number, size);
  }
  return t;
}

// Makes divisors, exponents and shifts of numbers.
void MakeOperandOf(IntegerOpcode code, TestTensor& t) {
  const auto size = static_cast<size_t>(ByteSize(t.dtype));
  for (size_t i = 0; i < static_cast<size_t>(t.elements()); ++i) {
    uint64_t number = 0;
    std::memcpy(&number, t.bytes.data() + i * size, size);
    if (code == IntegerOpcode::kPow || code == IntegerOpcode::kShiftLeft ||
        code == IntegerOpcode::kShiftRight)
      number &= 127;
    if ((code == IntegerOpcode::kDiv || code == IntegerOpcode::kRem || code == IntegerOpcode::kMod) &&
        !number)
      number = 7;
    std::memcpy(t.bytes.data() + i * size, &number, size);
  }
}

OpCase Case(const IntegerOp& op, DType dtype, const std::vector<Ints>& operands, const Ints& dims) {
  OpCase c{"Integer", {}, {}, {Empty(dims, op.boolean ? DType::kBool : dtype)}, {}, {}};
  for (unsigned k = 0; k < static_cast<unsigned>(op.operands); ++k) {
    const bool asks = op.code == IntegerOpcode::kSelect && k == 0;
    c.inputs.push_back(Numbers(operands[k], asks ? DType::kBool : dtype, k + 1));
    if (k == 1) MakeOperandOf(op.code, c.inputs.back());
  }
  c.attrs.Set("op", std::string(op.name));
  return c;
}

void ExpectTheBits(const OpCase& c) {
  EXPECT_EQ(CompareCudaWithReference(cuda::RegisterCudaInteger, c, 0), 1)
      << c.attrs.String("op") << " of " << ToString(c.inputs.back().dtype) << " "
      << DimsText(c.inputs[0].dims) << " to " << DimsText(c.outputs[0].dims);
}

TEST(CudaInteger, EveryOperationHasTheBitsOfTheReference) {
  const Ints dims = {700};
  for (const IntegerOp& op : AllIntegerOps())
    for (const DType dtype : {DType::kInt64, DType::kUint8})
      ExpectTheBits(Case(op, dtype, {dims, dims, dims}, dims));
}

TEST(CudaInteger, EveryTypeHasTheBitsOfTheReference) {
  for (const char* name : {"add", "mod", "shift-right", "abs"})
    for (const DType dtype :
         {DType::kInt8, DType::kInt16, DType::kInt32, DType::kUint16, DType::kUint32, DType::kUint64})
      ExpectTheBits(Case(*FindIntegerOp(name), dtype, {{30}, {30}}, {30}));
  for (const char* name : {"and", "or", "xor", "not", "equal", "select"})
    ExpectTheBits(Case(*FindIntegerOp(name), DType::kBool, {{30}, {30}, {30}}, {30}));
}

TEST(CudaInteger, OperandsBroadcast) {
  const IntegerOp &add = *FindIntegerOp("add"), &select = *FindIntegerOp("select");
  ExpectTheBits(Case(add, DType::kInt64, {{5, 1, 7}, {6, 1}}, {5, 6, 7}));
  ExpectTheBits(Case(add, DType::kInt64, {{}, {3, 400}}, {3, 400}));
  ExpectTheBits(Case(add, DType::kInt64, {{2, 3, 4, 5}, {4, 5}}, {2, 3, 4, 5}));
  ExpectTheBits(Case(add, DType::kInt64, {{1}, {1}}, {1}));
  ExpectTheBits(Case(add, DType::kInt64, {{0, 3}, {3}}, {0, 3}));
  ExpectTheBits(Case(add, DType::kInt64, {{2, 1, 2, 1, 2, 1, 2, 1}, {1, 2, 1, 2, 1, 2, 1, 2}},
                     {2, 2, 2, 2, 2, 2, 2, 2}));
  ExpectTheBits(Case(select, DType::kInt32, {{5, 1}, {7}, {5, 7}}, {5, 7}));
  ExpectTheBits(Case(*FindIntegerOp("expand"), DType::kInt64, {{4, 1}}, {3, 4, 70}));
}

TEST(CudaInteger, ASelectTakesFlagsOfAnyType) {
  for (const DType dtype : {DType::kInt64, DType::kUint8}) {
    OpCase c = Case(*FindIntegerOp("select"), DType::kInt32, {{90}, {90}, {90}}, {90});
    c.inputs[0] = Numbers({90}, dtype, 5);
    for (size_t i = 0; i < c.inputs[0].bytes.size() / 2; ++i) c.inputs[0].bytes[i] = std::byte{0};
    ExpectTheBits(c);
  }
}

TEST(CudaInteger, CastsKeepTheLowBits) {
  for (const auto& [from, to] : std::vector<std::pair<DType, DType>>{{DType::kInt64, DType::kInt8},
                                                                     {DType::kInt8, DType::kUint64},
                                                                     {DType::kUint32, DType::kInt64},
                                                                     {DType::kInt64, DType::kBool},
                                                                     {DType::kBool, DType::kInt32}}) {
    OpCase c = Case(*FindIntegerOp("cast"), from, {{100}}, {100});
    c.outputs = {Empty({100}, to)};
    ExpectTheBits(c);
  }
}

TEST(CudaInteger, ADivisionByZeroIsReported) {
  const KernelRegistry registry = CudaKernels(cuda::RegisterCudaInteger);
  for (const char* name : {"div", "mod", "rem", "pow"}) {
    OpCase c = Case(*FindIntegerOp(name), DType::kInt64, {{3}, {3}}, {3});
    c.inputs[0] = Labels({3}, {2, 0, 3});
    c.inputs[1] = Labels({3}, {1, name == std::string("pow") ? -1 : 0, 2});
    const CudaResult y = RunCuda(registry.For("Integer").front(), c, 0);
    EXPECT_EQ(y.error, "");
    EXPECT_EQ(y.fault.kind, static_cast<uint32_t>(DataFault::kDivision)) << name;
    EXPECT_EQ(TheTestCard().context().fault_sites.Place(y.fault.node), "node '' (Integer)");
    EXPECT_EQ(y.tensors[0].as<int64_t>()[1], 0);
    c.inputs[1] = Labels({3}, {1, 1, 2});
    EXPECT_EQ(RunCuda(registry.For("Integer").front(), c, 0).fault.kind, 0u) << name;
  }
}

OpCase Reduction(const std::string& op, DType dtype, const Ints& dims, const Ints& axes) {
  OpCase c{"IntegerReduce", {}, {Numbers(dims, dtype, 1)}, {}, {}, {}};
  Ints kept = dims;
  for (const int64_t axis : axes) kept[static_cast<size_t>(axis)] = 1;
  c.outputs = {Empty(kept, dtype)};
  c.attrs.Set("op", op);
  c.attrs.Set("axes", axes);
  return c;
}

TEST(CudaIntegerReduce, EveryReductionHasTheBitsOfTheReference) {
  for (const IntegerReduction& r : AllIntegerReductions())
    for (const DType dtype : {DType::kInt64, DType::kInt32, DType::kInt8, DType::kUint8})
      for (const int64_t axis : {0, 1, 2}) ExpectTheBits(Reduction(r.name, dtype, {5, 33, 6}, {axis}));
  for (const DType dtype : {DType::kInt16, DType::kUint16, DType::kUint32, DType::kUint64})
    for (const char* op : {"max", "mean"}) ExpectTheBits(Reduction(op, dtype, {5, 40}, {1}));
  for (const char* op : {"max", "min"}) ExpectTheBits(Reduction(op, DType::kBool, {50, 3}, {1}));
}

TEST(CudaIntegerReduce, EveryCutOfTheWorkAgrees) {
  for (const char* op : {"add", "max"}) {
    ExpectTheBits(Reduction(op, DType::kInt64, {90'001}, {0}));     // parts of blocks
    ExpectTheBits(Reduction(op, DType::kInt64, {3, 70'000}, {1}));  // the same, several results
    ExpectTheBits(Reduction(op, DType::kInt64, {20'000, 3}, {0}));  // parts of threads
    ExpectTheBits(Reduction(op, DType::kInt64, {5000, 40}, {0}));   // the same, many results
    ExpectTheBits(Reduction(op, DType::kInt64, {3, 4100}, {1}));    // a block for a row
    ExpectTheBits(Reduction(op, DType::kInt64, {70, 3}, {1}));
    ExpectTheBits(Reduction(op, DType::kInt64, {3, 4, 5, 6, 7}, {0, 2, 4}));
    ExpectTheBits(Reduction(op, DType::kInt64, {3, 4, 5, 6, 7}, {1, 3}));
    ExpectTheBits(Reduction(op, DType::kInt64, {1, 37}, {0}));
  }
}

TEST(CudaIntegerReduce, OfNothing) {
  for (const char* op : {"add", "mul", "max", "min"}) {
    ExpectTheBits(Reduction(op, DType::kInt32, {2, 0}, {1}));
    ExpectTheBits(Reduction(op, DType::kInt32, {0, 2}, {1}));
  }
  ExpectTheBits(Reduction("min", DType::kBool, {2, 0}, {1}));
  const KernelRegistry registry = CudaKernels(cuda::RegisterCudaInteger);
  EXPECT_TRUE(RunCuda(registry.For("IntegerReduce").front(), Reduction("mean", DType::kInt32, {2, 0}, {1}), 0)
                  .refused);
}

TEST(CudaIntegerReduce, WarpsReadNeighbours) {
  for (const int64_t axis : {0, 1})
    EXPECT_LT(
        SectorsOverIdeal(cuda::RegisterCudaInteger, Reduction("add", DType::kInt32, {256, 256}, {axis})), 1.1)
        << axis;
}

}  // namespace
}  // namespace act
