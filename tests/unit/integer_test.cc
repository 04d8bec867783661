// The operators `Integer` and `IntegerReduce` for every element type, compared with 128-bit
// arithmetic that is cut to the type.
#include <cmath>
#include <limits>

#include "runtime/plan/integer_op.h"
#include "tests/unit/kernel_testing.h"

namespace act {
namespace {

using Wide = __int128;

Wide Power(Wide a, Wide n) {
  if (n < 0) return a == 1 ? 1 : a == -1 ? (n % 2 == 0 ? 1 : -1) : 0;
  unsigned __int128 product = 1;  // modulo 2^128, so that the low bits are right
  for (Wide i = 0; i < n; ++i) product *= static_cast<unsigned __int128>(a);
  return static_cast<Wide>(product);
}

// In whole numbers; overflow is not reported.
Wide Truth(IntegerOpcode code, Wide a, Wide b, Wide c, int bits) {
  switch (code) {
    case IntegerOpcode::kAdd:
      return a + b;
    case IntegerOpcode::kSub:
      return a - b;
    case IntegerOpcode::kMul:
      return a * b;
    case IntegerOpcode::kDiv:
      return a / b;
    case IntegerOpcode::kRem:
      return a % b;
    case IntegerOpcode::kMod:
      return (a % b + b) % b;
    case IntegerOpcode::kPow:
      return Power(a, b);
    case IntegerOpcode::kMax:
      return a > b ? a : b;
    case IntegerOpcode::kMin:
      return a > b ? b : a;
    case IntegerOpcode::kNeg:
      return -a;
    case IntegerOpcode::kAbs:
      return a < 0 ? -a : a;
    case IntegerOpcode::kSign:
      return a < 0 ? -1 : a > 0 ? 1 : 0;
    case IntegerOpcode::kAnd:
      return a & b;
    case IntegerOpcode::kOr:
      return a | b;
    case IntegerOpcode::kXor:
      return a ^ b;
    case IntegerOpcode::kNot:
      return -a - 1;
    case IntegerOpcode::kShiftLeft:
      return b < 0 || b >= bits ? 0 : a * (Wide{1} << b);
    case IntegerOpcode::kShiftRight: {  // the floor of a / 2^b
      const Wide by = b < 0 || b > bits ? bits : b, unit = Wide{1} << by;
      return (a - ((a % unit) + unit) % unit) / unit;
    }
    case IntegerOpcode::kEqual:
      return a == b;
    case IntegerOpcode::kGreater:
      return a > b;
    case IntegerOpcode::kLess:
      return a < b;
    case IntegerOpcode::kSelect:
      return a != 0 ? b : c;
    case IntegerOpcode::kCast:
      return a;
  }
  return 0;
}

// The limits of the type, small numbers, odd numbers above 2^24 (where float32 has gaps)
// and random bits.
template <class T>
std::vector<T> Numbers(unsigned seed, size_t count) {
  std::vector<T> numbers = {0,
                            1,
                            2,
                            3,
                            5,
                            std::numeric_limits<T>::max(),
                            std::numeric_limits<T>::min(),
                            static_cast<T>(-1),
                            static_cast<T>(-3),
                            static_cast<T>((1 << 24) + 1)};
  std::mt19937_64 engine(seed);
  while (numbers.size() < count) numbers.push_back(static_cast<T>(engine() >> (engine() % 64)));
  std::shuffle(numbers.begin(), numbers.end(), engine);
  return numbers;
}

template <class T>
class Integer : public ::testing::Test {};
using Types = ::testing::Types<int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>;
TYPED_TEST_SUITE(Integer, Types);

template <class T>
DType TypeOf() {
  constexpr bool is_signed = std::is_signed_v<T>;
  switch (sizeof(T)) {
    case 1:
      return is_signed ? DType::kInt8 : DType::kUint8;
    case 2:
      return is_signed ? DType::kInt16 : DType::kUint16;
    case 4:
      return is_signed ? DType::kInt32 : DType::kUint32;
    default:
      return is_signed ? DType::kInt64 : DType::kUint64;
  }
}

OpCase Case(const std::string& op, std::vector<TestTensor> inputs, TestTensor output) {
  OpCase c{"Integer", {}, std::move(inputs), {std::move(output)}, {}, {}};
  c.attrs.Set("op", op);
  return c;
}

TYPED_TEST(Integer, IsExactToTheLastBit) {
  using T = TypeParam;
  const DType dtype = TypeOf<T>();
  constexpr int64_t kCount = 400;
  for (const IntegerOp& op : AllIntegerOps()) {
    std::vector<std::vector<T>> x;
    for (unsigned k = 0; k < static_cast<unsigned>(op.operands); ++k) x.push_back(Numbers<T>(k + 1, kCount));
    const bool divides =
        op.code == IntegerOpcode::kDiv || op.code == IntegerOpcode::kRem || op.code == IntegerOpcode::kMod;
    for (T& e : x.back()) {
      if (divides && e == 0) e = 7;
      if (op.code == IntegerOpcode::kPow)
        e = static_cast<T>(std::is_signed_v<T> && e < 0 ? -(e & 3) : e & 15);
      if (op.code == IntegerOpcode::kShiftLeft || op.code == IntegerOpcode::kShiftRight)
        e = static_cast<T>(e & 127);
    }
    if (op.code == IntegerOpcode::kPow)
      for (size_t i = 0; i < kCount; ++i)
        if (x[0][i] == 0 && x[1][i] < 0) x[0][i] = 1;
    std::vector<TestTensor> inputs;
    for (const auto& values : x) inputs.push_back(Of({kCount}, values, dtype));
    const OpResult y =
        RunReference(Case(op.name, inputs, Empty({kCount}, op.boolean ? DType::kBool : dtype)));
    ASSERT_FALSE(y.refused) << y.error;
    ASSERT_EQ(y.error, "");
    for (size_t i = 0; i < kCount; ++i) {
      const Wide b = op.operands > 1 ? Wide{x[1][i]} : 0, c = op.operands > 2 ? Wide{x[2][i]} : 0;
      const Wide want = Truth(op.code, Wide{x[0][i]}, b, c, 8 * sizeof(T));
      const T got = op.boolean ? static_cast<T>(y.tensors[0].as<uint8_t>()[i]) : y.tensors[0].as<T>()[i];
      ASSERT_EQ(got, static_cast<T>(want)) << op.name << " of " << +x[0][i];
    }
  }
}

TYPED_TEST(Integer, CastsKeepTheLowBits) {
  using T = TypeParam;
  const std::vector<int64_t> x = Numbers<int64_t>(5, 100);
  OpCase c = Case("cast", {Of({100}, x, DType::kInt64)}, Empty({100}, TypeOf<T>()));
  c.attrs.Set("to", static_cast<int64_t>(TypeOf<T>()));
  const OpResult y = RunReference(c);
  ASSERT_FALSE(y.refused) << y.error;
  for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(y.tensors[0].as<T>()[i], static_cast<T>(x[i]));
}

OpCase Reduction(const std::string& op, TestTensor x, const std::vector<int64_t>& axes,
                 const std::vector<int64_t>& kept) {
  const DType dtype = x.dtype;
  OpCase c{"IntegerReduce", {}, {std::move(x)}, {Empty(kept, dtype)}, {}, {}};
  c.attrs.Set("op", op);
  c.attrs.Set("axes", axes);
  return c;
}

TYPED_TEST(Integer, ReductionsWrapInTheType) {
  using T = TypeParam;
  constexpr int64_t kRows = 5, kColumns = 7;
  const std::vector<T> x = Numbers<T>(3, kRows * kColumns);
  const TestTensor operand = Of({kRows, kColumns}, x, TypeOf<T>());
  for (const IntegerReduction& r : AllIntegerReductions())
    for (const bool rows : {false, true}) {
      const int64_t kept = rows ? kColumns : kRows, count = rows ? kRows : kColumns;
      const OpResult y = RunReference(Reduction(r.name, operand, {rows ? 0 : 1}, {kept}));
      ASSERT_FALSE(y.refused) << y.error;
      for (int64_t i = 0; i < kept; ++i) {
        const auto at = [&](int64_t j) {
          return x[static_cast<size_t>(rows ? j * kColumns + i : i * kColumns + j)];
        };
        Wide want = Wide{at(0)};
        // NOLINTNEXTLINE(bugprone-signed-char-misuse): numbers, and no characters
        for (int64_t j = 1; j < count; ++j) want = static_cast<T>(Truth(r.code, want, Wide{at(j)}, 0, 0));
        if (r.divides) want /= count;
        ASSERT_EQ(y.tensors[0].as<T>()[i], static_cast<T>(want)) << r.name;
      }
    }
}

TYPED_TEST(Integer, ReductionsOfNothing) {
  using T = TypeParam;
  const TestTensor none = Of({2, 0}, std::vector<T>(), TypeOf<T>());
  const auto of = [&](const char* op) {
    return RunReference(Reduction(op, none, {1}, {2, 1})).tensors[0].template as<T>()[1];
  };
  EXPECT_EQ(of("add"), 0);
  EXPECT_EQ(of("mul"), 1);
  EXPECT_EQ(of("max"), std::numeric_limits<T>::min());
  EXPECT_EQ(of("min"), std::numeric_limits<T>::max());
  EXPECT_EQ(RunReference(Reduction("mean", none, {1}, {2, 1})).error, "divides by zero");
  EXPECT_EQ(RunReference(Reduction("mean", none, {0}, {1, 0})).error, "");
}

TEST(IntegerReduce, OfFlagsAndWrongTypes) {
  const TestTensor flags = Of({2, 2}, std::vector<uint8_t>{1, 0, 1, 1}, DType::kBool);
  const auto reduced = [&](const char* op, const TestTensor& x) {
    const TestTensor y = RunReference(Reduction(op, x, {1}, {2})).tensors[0];
    return std::vector<uint8_t>(y.as<uint8_t>(), y.as<uint8_t>() + 2);
  };
  EXPECT_EQ(reduced("max", flags), (std::vector<uint8_t>{1, 1}));
  EXPECT_EQ(reduced("min", flags), (std::vector<uint8_t>{0, 1}));
  const TestTensor none = Of({2, 0}, std::vector<uint8_t>(), DType::kBool);
  EXPECT_EQ(reduced("max", none), (std::vector<uint8_t>{0, 0}));
  EXPECT_EQ(reduced("min", none), (std::vector<uint8_t>{1, 1}));
  const auto refused = [](const OpCase& c) { return RunReference(c).refused; };
  EXPECT_TRUE(refused(Reduction("add", flags, {1}, {2})));
  EXPECT_TRUE(refused(Reduction("max", Random({2, 2}, 1), {1}, {2})));
  EXPECT_TRUE(refused(Reduction("all", flags, {1}, {2})));
  EXPECT_TRUE(refused(Reduction("max", flags, {2}, {2})));
  EXPECT_TRUE(refused(Reduction("max", flags, {1}, {3})));
}

TEST(IntegerShapes, Broadcast) {
  const TestTensor rows = Of({2, 1}, std::vector<int64_t>{10, 20}, DType::kInt64);
  const TestTensor columns = Of({3}, std::vector<int64_t>{1, 2, 3}, DType::kInt64);
  const OpResult y = RunReference(Case("add", {rows, columns}, Empty({2, 3}, DType::kInt64)));
  ASSERT_FALSE(y.refused) << y.error;
  EXPECT_EQ(y.tensors[0].bytes,
            Of({2, 3}, std::vector<int64_t>{11, 12, 13, 21, 22, 23}, DType::kInt64).bytes);
  const TestTensor flag = Of({2, 1}, std::vector<uint8_t>{1, 0}, DType::kBool);
  const OpResult z = RunReference(Case("select", {flag, columns, rows}, Empty({2, 3}, DType::kInt64)));
  ASSERT_FALSE(z.refused) << z.error;
  EXPECT_EQ(z.tensors[0].bytes, Of({2, 3}, std::vector<int64_t>{1, 2, 3, 20, 20, 20}, DType::kInt64).bytes);
  const OpResult copies = RunReference(Case("expand", {columns}, Empty({2, 3}, DType::kInt64)));
  ASSERT_FALSE(copies.refused) << copies.error;
  EXPECT_EQ(copies.tensors[0].bytes, Of({2, 3}, std::vector<int64_t>{1, 2, 3, 1, 2, 3}, DType::kInt64).bytes);
  EXPECT_TRUE(RunReference(Case("expand", {columns}, Empty({2, 3}, DType::kInt32))).refused);
  const OpResult none =
      RunReference(Case("neg", {Empty({0, 3}, DType::kInt32)}, Empty({0, 3}, DType::kInt32)));
  EXPECT_FALSE(none.refused) << none.error;
}

TEST(IntegerErrors, DividingByZeroAndWrongTypesAreTold) {
  const TestTensor x = Of({2}, std::vector<int32_t>{1, 2}, DType::kInt32);
  const TestTensor zero = Of({2}, std::vector<int32_t>{1, 0}, DType::kInt32);
  for (const char* op : {"div", "mod", "rem"})
    EXPECT_EQ(RunReference(Case(op, {x, zero}, Empty({2}, DType::kInt32))).error, "divides by zero");
  const auto refused = [](const OpCase& c) { return RunReference(c).refused; };
  EXPECT_TRUE(refused(Case("add", {x, Empty({2})}, Empty({2}, DType::kInt32))));
  EXPECT_TRUE(refused(Case("add", {x, x}, Empty({2}, DType::kInt64))));
  EXPECT_TRUE(refused(Case("add", {x, x}, Empty({3}, DType::kInt32))));
  EXPECT_TRUE(refused(Case("add", {x}, Empty({2}, DType::kInt32))));
  EXPECT_TRUE(refused(Case("divide", {x, x}, Empty({2}, DType::kInt32))));
}

}  // namespace
}  // namespace act
