// Folding of shape computations, with elements polynomial in the batch size N.
#include "compiler/import/fold/fold_shapes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "compiler/import/known/onnx_types.h"
#include "tests/compiler/onnx_model.h"

namespace act::onnx_import {
namespace {

const Dim kN = Dim::Batch();

using testing::Attr;
using AttributeList = std::vector<onnx::AttributeProto>;

Folded Fold(const char* op, const std::vector<Known>& in, const AttributeList& attrs = {},
            size_t outputs = 1) {
  onnx::NodeProto node;
  for (const auto& a : attrs) *node.add_attribute() = a;
  const NodeAttributes attributes(node);
  FoldArgs args{{}, attributes, outputs};
  for (const Known& known : in) args.in.push_back(&known);
  const FoldEntry* fold = FindFold(op);
  EXPECT_NE(fold, nullptr) << op;
  if (!fold) return std::nullopt;
  Folded result = fold->fold(args);
  if (llvm::Error error = attributes.Check()) ADD_FAILURE() << llvm::toString(std::move(error));
  return result;
}

template <class T>
AttributeList With(const char* name, const T& value) {
  return {Attr(name, value)};
}

// The elements of a folded 1-D or scalar integer tensor as text, "none" where it does not fold.
std::string Text(const Folded& folded, size_t output = 0) {
  if (!folded) return "none";
  const Known& known = (*folded)[output];
  const auto dims = AsDims(known);
  return dims ? ToString(known.type) + ToString(*dims) : "not integers";
}

TEST(Fold, ArithmeticOfShapesStaysPolynomial) {
  const Known shape = IntegerVector({kN, 8, 4});
  EXPECT_EQ(Text(Fold("Mul", {shape, IntegerScalar(2)})), "i64[3][2N,16,8]");
  EXPECT_EQ(Text(Fold("Add", {shape, IntegerScalar(kN)})), "i64[3][2N,N+8,N+4]");
  EXPECT_EQ(Text(Fold("Div", {IntegerScalar(Dim(0, 512)), IntegerScalar(kN)})), "i64[][512]");
  EXPECT_EQ(Text(Fold("Div", {IntegerScalar(-7), IntegerScalar(2)})), "i64[][-3]") << "toward zero";
  EXPECT_EQ(Text(Fold("Mod", {IntegerScalar(-7), IntegerScalar(4)})), "i64[][1]") << "sign of the divisor";
  EXPECT_EQ(Text(Fold("ReduceProd", {shape}, With("keepdims", int64_t{0}))), "i64[][32N]");
}

TEST(Fold, IntegersWrapInTheirType) {
  constexpr int64_t kFloat = 1, kUint8 = 2, kInt8 = 3, kInt32 = 6;
  const auto cast = [](const Known& x, int64_t to) { return (*Fold("Cast", {x}, With("to", to)))[0]; };
  const auto number = [&](int64_t value, int64_t type) { return cast(IntegerScalar(value), type); };
  EXPECT_EQ(Text(Fold("Add", {number(200, kUint8), number(100, kUint8)})), "u8[][44]");
  EXPECT_EQ(Text(Fold("Sub", {number(1, kUint8), number(2, kUint8)})), "u8[][255]");
  EXPECT_EQ(Text(Fold("Mul", {number(1 << 20, kInt32), number(1 << 20, kInt32)})), "i32[][0]");
  EXPECT_EQ(Text(Fold("Neg", {number(-128, kInt8)})), "i8[][-128]");
  EXPECT_EQ(Text(Fold("Abs", {number(-128, kInt8)})), "i8[][-128]");
  constexpr int64_t kLarge = int64_t{1} << 62, kMost = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(Text(Fold("Add", {IntegerScalar(kLarge), IntegerScalar(5)})), "i64[][4611686018427387909]");
  EXPECT_EQ(Text(Fold("Sub", {IntegerScalar(kMost), IntegerScalar(1)})), "i64[][9223372036854775806]");
  EXPECT_EQ(Text(Fold("Neg", {IntegerScalar(-kLarge)})), "i64[][4611686018427387904]");
  EXPECT_EQ(Text(Fold("Add", {IntegerScalar(kN), IntegerScalar(kMost)})), "none") << "a polynomial saturates";
  // From floats they saturate.
  const auto from_float = [&](int64_t value, int64_t type) {
    return Text(Fold("Cast", {number(value, kFloat)}, With("to", type)));
  };
  EXPECT_EQ(from_float(300, kUint8), "u8[][255]");
  EXPECT_EQ(from_float(-3, kUint8), "u8[][0]");
  EXPECT_EQ(from_float(-300, kInt8), "i8[][-128]");
  EXPECT_EQ(from_float(300, kInt8), "i8[][127]");
  EXPECT_EQ(from_float(int64_t{1} << 40, kInt32), "i32[][2147483647]");
}

TEST(Fold, WhatIsNoPolynomialDoesNotFold) {
  EXPECT_EQ(Text(Fold("Div", {IntegerScalar(kN), IntegerScalar(2)})), "none");
  EXPECT_EQ(Text(Fold("Div", {IntegerScalar(8), IntegerScalar(0)})), "none");
  EXPECT_EQ(Text(Fold("Less", {IntegerScalar(kN), IntegerScalar(5)})), "none") << "depends on N";
  EXPECT_EQ(Text(Fold("Cast", {IntegerScalar(kN)}, With("to", int64_t{1}))), "none") << "a float has no N";
}

// Elements along an axis that varies with N, "first+step*i" each.
std::string Lines(const Folded& folded) {
  if (!folded) return "none";
  std::string text = ToString((*folded)[0].type);
  for (const Element& e : (*folded)[0].elements)
    text += " " + ToString(e.integer) + (e.per_index == 0 ? "" : "+" + std::to_string(e.per_index) + "i");
  return text;
}

Known Positions(const char* dims) {  // Range(0, N) as [N,1] or [N,1,1,1]
  const Folded range = Fold("Range", {IntegerScalar(0), IntegerScalar(kN), IntegerScalar(1)});
  Dims shape{kN};
  for (const char* c = dims; *c; ++c) shape.push_back(1);
  return (*Fold("Reshape", {(*range)[0], IntegerVector(shape)}))[0];
}

TEST(Fold, PositionsAlongTheBatch) {
  const Folded columns = Fold("Range", {IntegerScalar(0), IntegerScalar(3), IntegerScalar(1)});
  EXPECT_EQ(Lines(Fold("Range", {IntegerScalar(2), IntegerScalar(Dim(2, 3)), IntegerScalar(3)})),
            "i64[N] 2+3i");
  const Folded rows = Fold("Mul", {Positions("1"), IntegerScalar(3)});
  const Folded places = Fold("Add", {(*rows)[0], (*columns)[0]});
  EXPECT_EQ(Lines(places), "i64[N,3] 0+3i 1+3i 2+3i");
  EXPECT_EQ(Lines(Fold("Transpose", {(*places)[0]})), "i64[3,N] 0+3i 1+3i 2+3i");
  EXPECT_EQ(Lines(Fold("Reshape", {(*places)[0], IntegerVector({kN, 1, 3})})), "i64[N,1,3] 0+3i 1+3i 2+3i");
  EXPECT_EQ(Lines(Fold("Reshape", {(*places)[0], IntegerVector({Dim(0, 3)})})), "none")
      << "no line in 3N positions";
  EXPECT_EQ(Lines(Fold("Gather", {(*places)[0], IntegerVector({2, 0})}, With("axis", int64_t{1}))),
            "i64[N,2] 2+3i 0+3i");
  EXPECT_EQ(Lines(Fold("Gather", {(*places)[0], IntegerScalar(0)})), "i64[3] 0 1 2") << "the first sample's";
  EXPECT_EQ(Lines(Fold("Gather", {(*places)[0], IntegerScalar(-1)})), "i64[3] 3N-3 3N-2 3N-1");
  EXPECT_EQ(Lines(Fold("Gather", {(*places)[0], IntegerScalar(1)})), "none") << "there may be one sample";
  EXPECT_EQ(Lines(Fold("Less", {Positions(""), IntegerScalar(0)})), "bool[N] 0");
  EXPECT_EQ(Lines(Fold("Less", {Positions(""), IntegerScalar(kN)})), "bool[N] 1");
  EXPECT_EQ(Lines(Fold("Less", {Positions(""), IntegerScalar(2)})), "none");
  EXPECT_EQ(Lines(Fold("Max", {Positions("1"), (*columns)[0]})), "none");
  EXPECT_EQ(Lines(Fold("Cast", {Positions("")}, With("to", int64_t{1}))), "none");
}

TEST(Fold, LookupsAlongTheBatch) {
  // The dynamo exporter writes x[rows, columns] in this way: it expands [N,1,1,1] and [1,1,3,1],
  // joins them, and reads x by GatherND.
  const Folded columns = Fold("Range", {IntegerScalar(0), IntegerScalar(3), IntegerScalar(1)});
  const Folded data = Fold("Expand", {(*columns)[0], IntegerVector({kN, 3})});
  const Known shape = IntegerVector({kN, 1, 3, 1, 1});
  const Known rows = (*Fold("Expand", {Positions("1111"), shape}))[0];
  const Folded third = Fold("Reshape", {(*columns)[0], IntegerVector({1, 1, 3, 1, 1})});
  const Known picks = (*Fold("Expand", {(*third)[0], shape}))[0];
  const Folded index = Fold("Concat", {rows, picks}, With("axis", int64_t{-1}));
  EXPECT_EQ(Lines(index), "i64[N,1,3,1,2] 0+1i 0 0+1i 1 0+1i 2");
  EXPECT_EQ(Lines(Fold("GatherND", {(*data)[0], (*index)[0]})), "i64[N,1,3,1] 0 1 2");
  const Folded ones = Fold("Expand", {IntegerScalar(2), IntegerVector({kN})});
  EXPECT_EQ(Lines(Fold("CumSum", {(*ones)[0], IntegerScalar(0)})), "i64[N] 2+2i");
  const AttributeList both = {Attr("exclusive", int64_t{1}), Attr("reverse", int64_t{1})};
  EXPECT_EQ(Lines(Fold("CumSum", {(*ones)[0], IntegerScalar(0)}, both)), "i64[N] 2N-2+-2i");
}

TEST(Fold, PlacesOfOnesAlongTheBatch) {
  // How TorchScript's exporter writes the positions of as_strided along an axis.
  const Known shape = IntegerVector({kN * Dim(2)});
  const Folded ones = Fold("Expand", {IntegerScalar(1), shape});
  EXPECT_EQ(Lines(Fold("NonZero", {(*ones)[0]})), "i64[1,2N] 0+1i");
  const Folded zeros = Fold("Expand", {IntegerScalar(0), shape});
  EXPECT_EQ(Lines(Fold("NonZero", {(*zeros)[0]})), "none");
}

TEST(Fold, OneHotAsTheStandardSays) {
  const Known depth = IntegerScalar(3), repeats = IntegerVector({1, 2});
  // How TorchScript's exporter writes the repeats of x.repeat_interleave(2, 0).
  EXPECT_EQ(Lines(Fold("OneHot", {IntegerVector({1}), depth, repeats})), "i64[1,3] 1 2 1");
  EXPECT_EQ(Lines(Fold("OneHot", {IntegerVector({2, -3}), depth, repeats})), "i64[2,3] 1 1 2 2 1 1");
  EXPECT_EQ(Lines(Fold("OneHot", {IntegerVector({2, -3}), depth, repeats}, With("axis", int64_t{0}))),
            "i64[3,2] 1 2 1 1 2 1");
  EXPECT_EQ(Lines(Fold("OneHot", {IntegerVector({7}), depth, repeats})), "i64[1,3] 1 1 1")
      << "outside: nowhere";
  EXPECT_EQ(Lines(Fold("OneHot", {IntegerVector({kN}), depth, repeats})), "none");
}

TEST(Fold, GatherAndScatterAsTheStandardSays) {
  const Known data = (*Fold("Reshape", {IntegerVector({1, 2, 3, 4, 5, 6}), IntegerVector({2, 3})}))[0];
  const Known index = (*Fold("Reshape", {IntegerVector({2, 0, -1, 1}), IntegerVector({2, 2})}))[0];
  EXPECT_EQ(Lines(Fold("GatherElements", {data, index}, With("axis", int64_t{1}))), "i64[2,2] 3 1 6 5");
  EXPECT_EQ(Lines(Fold("GatherElements", {data, index}, With("axis", int64_t{0}))), "none") << "2 is outside";
  EXPECT_EQ(Lines(Fold("GatherND", {data, IntegerVector({1, -3})})), "i64[] 4");
  EXPECT_EQ(
      Lines(Fold("GatherND", {data, (*Fold("Reshape", {IntegerVector({1, 0}), IntegerVector({2, 1})}))[0]},
                 With("batch_dims", int64_t{1}))),
      "i64[2] 2 4");
  const Known updates = (*Fold("Reshape", {IntegerVector({10, 20, 30, 40}), IntegerVector({2, 2})}))[0];
  EXPECT_EQ(Lines(Fold("ScatterElements", {data, index, updates}, With("axis", int64_t{1}))),
            "i64[2,3] 20 2 10 4 40 30");
  const AttributeList add = With("reduction", std::string("add"));
  const Known twice = (*Fold("Reshape", {IntegerVector({1, 1}), IntegerVector({2, 1})}))[0];
  const Known rows = (*Fold("Reshape", {IntegerVector({1, 1, 1, 2, 2, 2}), IntegerVector({2, 3})}))[0];
  EXPECT_EQ(Lines(Fold("ScatterND", {data, twice, rows}, add)), "i64[2,3] 1 2 3 7 8 9");
  EXPECT_EQ(Lines(Fold("ScatterND", {data, IntegerVector({0, 3}), IntegerScalar(1)})), "none") << "outside";
}

TEST(Fold, SequencesAndReductions) {
  const Known row = IntegerVector({3, 1, 2});
  EXPECT_EQ(Text(Fold("CumSum", {row, IntegerScalar(0)})), "i64[3][3,4,6]");
  EXPECT_EQ(Text(Fold("CumSum", {row, IntegerScalar(-1)}, With("exclusive", int64_t{1}))), "i64[3][0,3,4]");
  EXPECT_EQ(Text(Fold("CumSum", {row, IntegerScalar(-1)}, With("reverse", int64_t{1}))), "i64[3][6,3,2]");
  const Known square = (*Fold("Expand", {IntegerScalar(7), IntegerVector({2, 3})}))[0];
  EXPECT_EQ(Text(Fold("Trilu", {square}, With("upper", int64_t{0}))), "i64[2,3][7,0,0,7,7,0]");
  EXPECT_EQ(Text(Fold("Trilu", {square, IntegerScalar(1)})), "i64[2,3][0,7,7,0,0,7]");
  EXPECT_EQ(Text(Fold("ReduceMax", {row}, With("keepdims", int64_t{0}))), "i64[][3]");
  const Known matrix = (*Fold("Reshape", {IntegerVector({1, 2, 3, 4}), IntegerVector({2, 2})}))[0];
  EXPECT_EQ(Text(Fold("ReduceSum", {matrix, IntegerVector({0})})), "i64[1,2][4,6]");
  EXPECT_EQ(Text(Fold("ReduceProd", {matrix, IntegerVector({1})}, With("keepdims", int64_t{0}))),
            "i64[2][2,12]");
  EXPECT_EQ(Text(Fold("Tile", {row, IntegerVector({2})})), "i64[6][3,1,2,3,1,2]");
  EXPECT_EQ(Text(Fold("Max", {IntegerScalar(1), IntegerScalar(3), IntegerScalar(2)})), "i64[][3]");
}

// By other formulas than the folds': the half angle's sine, and the cosine of twice the angle as a square.
TEST(Fold, WindowsOfFourierTransforms) {
  for (const int64_t periodic : {1, 0}) {
    const double around = periodic != 0 ? 6 : 5;
    const auto windows = [&](const char* op) {
      const Folded folded = Fold(op, {IntegerScalar(6)}, With("periodic", periodic));
      EXPECT_TRUE(folded && ToString(folded->at(0).type) == "f32[6]") << op;
      return folded ? folded->at(0).elements : std::vector<Element>(6);
    };
    const auto hann = windows("HannWindow"), hamming = windows("HammingWindow"),
               blackman = windows("BlackmanWindow");
    for (size_t i = 0; i < 6; ++i) {
      const double half = std::acos(-1.) * static_cast<double>(i) / around, sine = std::sin(half);
      const double cosine = std::cos(2 * half);
      const double expected[] = {sine * sine, 4. / 46 + 42. / 46 * sine * sine,
                                 .34 - .5 * cosine + .16 * cosine * cosine};
      // A float's precision at 1: some of them are 0 but for the rounding of a sine.
      EXPECT_NEAR(hann[i].real, expected[0], 1e-7) << i;
      EXPECT_NEAR(hamming[i].real, expected[1], 1e-7) << i;
      EXPECT_NEAR(blackman[i].real, expected[2], 1e-7) << i;
    }
  }
  EXPECT_FALSE(Fold("HannWindow", {IntegerScalar(kN)}));
  EXPECT_EQ(Fold("HannWindow", {IntegerScalar(1)})->at(0).elements[0].real, 1);
}

TEST(Fold, ComparisonsHoldForEveryBatch) {
  EXPECT_EQ(Text(Fold("Equal", {IntegerVector({kN, -1, 3}), IntegerScalar(-1)})), "bool[3][0,1,0]");
  EXPECT_EQ(Text(Fold("Greater", {IntegerScalar(Dim(1, 1)), IntegerScalar(kN)})), "bool[][1]");
  EXPECT_EQ(Compare(Dim(5, -1), Dim(0)), std::nullopt) << "5 - N changes its sign";
  EXPECT_EQ(Compare(kN, Dim(1)), std::nullopt) << "equal at N = 1, greater above";
  // The idiom of TorchScript's expand: Where(shape == -1, 1, shape).
  const Known shape = IntegerVector({kN, -1});
  const Folded is_open = Fold("Equal", {shape, IntegerScalar(-1)});
  EXPECT_EQ(Text(Fold("Where", {(*is_open)[0], IntegerScalar(1), shape})), "i64[2][N,1]");
}

TEST(Fold, StructureOfShapes) {
  const Known shape = IntegerVector({kN, 3, 32, 16});
  EXPECT_EQ(Text(Fold("Gather", {shape, IntegerScalar(-1)})), "i64[][16]");
  EXPECT_EQ(Text(Fold("Gather", {shape, IntegerVector({0, 2})})), "i64[2][N,32]");
  EXPECT_EQ(Text(Fold("Gather", {shape, IntegerScalar(4)})), "none");
  EXPECT_EQ(Text(Fold("Slice", {shape, IntegerVector({1}), IntegerVector({INT64_MAX})})), "i64[3][3,32,16]");
  EXPECT_EQ(Text(Fold("Slice", {shape, IntegerVector({-1}), IntegerVector({INT64_MIN}), IntegerVector({0}),
                                IntegerVector({-1})})),
            "i64[4][16,32,3,N]");
  EXPECT_EQ(Text(Fold("Concat", {shape, IntegerVector({7})}, With("axis", int64_t{0}))),
            "i64[5][N,3,32,16,7]");
  EXPECT_EQ(Text(Fold("Unsqueeze", {IntegerScalar(kN), IntegerVector({0})})), "i64[1][N]");
  EXPECT_EQ(Text(Fold("Squeeze", {IntegerVector({kN})})), "i64[][N]");
  EXPECT_EQ(Text(Fold("Squeeze", {shape, IntegerVector({0})})), "none") << "an extent of 4 is no 1";
  EXPECT_EQ(Text(Fold("Reshape", {shape, IntegerVector({2, -1})})).substr(0, 8), "i64[2,2]");
  EXPECT_EQ(Text(Fold("Expand", {IntegerScalar(kN), IntegerVector({2})})), "i64[2][N,N]");
  EXPECT_EQ(Text(Fold("Range", {IntegerScalar(5), IntegerScalar(-1), IntegerScalar(-2)})), "i64[3][5,3,1]");
  const Folded parts = Fold("Split", {shape}, With("axis", int64_t{0}), 3);
  EXPECT_EQ(Text(parts, 0) + Text(parts, 2), "i64[2][N,3]i64[0][]")
      << "Split-18: the last parts may be smaller";
}

TEST(Fold, MatricesMoveTheirElements) {
  const Folded matrix = Fold("Reshape", {IntegerVector({1, 2, 3, 4, 5, 6}), IntegerVector({2, 3})});
  const Folded transposed = Fold("Transpose", {(*matrix)[0]});
  EXPECT_EQ(Text(transposed), "i64[3,2][1,4,2,5,3,6]");
  EXPECT_EQ(Text(Fold("Transpose", {(*matrix)[0]}, With("perm", std::vector<int64_t>{-1, 0}))),
            "i64[3,2][1,4,2,5,3,6]");
  EXPECT_EQ(Text(Fold("Add", {(*matrix)[0], IntegerVector({10, 20, 30})})), "i64[2,3][11,22,33,14,25,36]");
  EXPECT_EQ(Text(Fold("Gather", {(*matrix)[0], IntegerVector({2, 0})}, With("axis", int64_t{1}))),
            "i64[2,2][3,1,6,4]");
}

TEST(Fold, FloatConstantsRoundToTheirType) {
  const Folded third = Fold("Div", {RealScalar(DType::kFloat32, 1), RealScalar(DType::kFloat32, 3)});
  EXPECT_EQ(AsReal((*third)[0]), static_cast<double>(1.f / 3.f));
  const Folded truncated = Fold("Cast", {RealScalar(DType::kFloat32, -2.75)}, With("to", int64_t{7}));
  EXPECT_EQ(Text(truncated), "i64[][-2]");
  EXPECT_EQ(Text(Fold("Cast", {RealScalar(DType::kFloat64, 1e30)}, With("to", int64_t{7}))), "none");
  EXPECT_EQ(Text(Fold("Cast", {RealScalar(DType::kFloat64, std::nan(""))}, With("to", int64_t{7}))), "none");
}

TEST(Fold, ASplatKeepsOneElementWhateverItsShape) {
  Known zeros = RealScalar(DType::kFloat32, 0);
  zeros.type.dims = {kN, 1000000, 1000000};
  const Folded sum = Fold("Add", {zeros, RealScalar(DType::kFloat32, 2)});
  ASSERT_TRUE(sum);
  EXPECT_EQ((*sum)[0].elements.size(), 1u);
  EXPECT_EQ(ToString((*sum)[0].type), "f32[N,1000000,1000000]");
}

TEST(Fold, HugeTensorsAreLeftAlone) {
  const Known pair = IntegerVector({1, 2});
  EXPECT_EQ(Text(Fold("Expand", {pair, IntegerVector({int64_t{1} << 40, 2})})), "none");
  EXPECT_EQ(Text(Fold("Range", {IntegerScalar(0), IntegerScalar(INT64_MAX), IntegerScalar(1)})), "none");
  EXPECT_EQ(Text(Fold("Range", {IntegerScalar(INT64_MIN), IntegerScalar(INT64_MAX), IntegerScalar(1)})),
            "none");
  EXPECT_EQ(Text(Fold("Pow", {IntegerScalar(10), IntegerScalar(60)})), "none");
  EXPECT_EQ(Text(Fold("Div", {IntegerScalar(INT64_MIN), IntegerScalar(-1)})), "none") << "would trap";
  EXPECT_EQ(Text(Fold("Mod", {IntegerScalar(INT64_MIN), IntegerScalar(-1)})), "none");
  const Known large = IntegerScalar(kTooLarge - 1);
  EXPECT_EQ(Text(Fold("Mul", {large, large})), "none");
}

TEST(ResolveSlice, CutsLikeNumpy) {
  struct Case {
    Dim axis, start, end;
    int64_t step;
    const char* expected;
  };
  const Case cases[] = {
      {10, 2, 5, 1, "2 3 1"},         {10, -3, INT64_MAX, 1, "7 3 1"},    {10, 0, -1, 1, "0 9 1"},
      {10, 1, 10, 3, "1 3 3"},        {10, -1, INT64_MIN, -1, "9 10 -1"}, {10, 8, 2, 1, "0 0 1"},
      {10, 20, 30, 1, "0 0 1"},       {kN, 0, INT64_MAX, 1, "0 N 1"},     {kN, 0, kN, 1, "0 N 1"},
      {10, 2, Dim(9, 1), 1, "2 8 1"}, {kN, 1, INT64_MAX, 1, "none"},      {kN, 0, 5, 1, "none"},
      {10, 0, 5, 0, "none"},
  };
  for (const Case& c : cases) {
    const auto range = ResolveSlice(c.axis, c.start, c.end, c.step);
    const std::string text = !range ? "none"
                                    : std::to_string(range->start) + " " + ToString(range->extent) + " " +
                                          std::to_string(range->step);
    EXPECT_EQ(text, c.expected) << ToString(c.axis) << "[" << ToString(c.start) << ":" << ToString(c.end)
                                << ":" << c.step << "]";
  }
}

TEST(ResolveReshape, FillsInZeroAndMinusOne) {
  const Dims from{kN, 3, 4};
  const auto text = [&](const Dims& shape, bool allow_zero = false) {
    const auto dims = ResolveReshape(from, shape, allow_zero);
    return dims ? ToString(*dims) : "none";
  };
  EXPECT_EQ(text({0, -1}), "[N,12]");
  EXPECT_EQ(text({-1, 12}), "[N,12]");
  EXPECT_EQ(text({-1}), "[12N]");
  EXPECT_EQ(text({Dim(0, 2), 6}), "[2N,6]");
  EXPECT_EQ(text({-1, -1}), "none");
  EXPECT_EQ(text({5, -1}), "none");
  EXPECT_EQ(text({0, 12}, true), "none") << "a real 0";
  EXPECT_EQ(text({0, 0, 0, 0}), "none");
  EXPECT_EQ(text({-3, 4}), "none");
}

}  // namespace
}  // namespace act::onnx_import
