// Det and its gradient where elimination has to choose its pivots, and where there are none.
#include <numeric>
#include <random>

#include "tests/unit/kernel_testing.h"

namespace act {
namespace {

OpCase DetOf(std::vector<float> x, int64_t rows) {
  const int64_t count = static_cast<int64_t>(x.size()) / (rows * rows);
  return {"Det", {}, {Floats({count, rows, rows}, std::move(x))}, {Empty({count})}, {}, {}};
}

std::vector<float> Result(const OpCase& c) {
  const OpResult result = RunReference(c);
  EXPECT_FALSE(result.refused) << result.error;
  EXPECT_EQ(result.error, "");
  const float* y = result.tensors[0].as<float>();
  return {y, y + ElementCount(c.outputs[0].dims)};
}

// Of a gradient of 1.
std::vector<float> Cofactors(std::vector<float> x, int64_t rows) {
  const TestTensor matrix = Floats({1, rows, rows}, std::move(x));
  return Result({"DetGrad", {}, {Floats({1}, {1}), matrix}, {Empty({1, rows, rows})}, {}, {}});
}

using Numbers = std::vector<float>;

TEST(Det, PivotsAreChosen) {
  EXPECT_EQ(Result(DetOf({0, 1, 1, 0, 2, 3, 4, 5}, 2)), (Numbers{-1, -2}));
  // Without pivoting 1e-20 - 1 / 1e-20 loses everything.
  EXPECT_EQ(Result(DetOf({1e-20f, 1, 1, 1}, 2)), Numbers{-1});
  EXPECT_EQ(Result(DetOf({0, 0, 2, 3, 0, 0, 0, 5, 0}, 3)), Numbers{30});
  EXPECT_EQ(Result(DetOf({-4}, 1)), Numbers{-4});
  EXPECT_TRUE(std::isnan(Result(DetOf({1, 2, NAN, 4}, 2))[0]));
  // Not below zeros either, which are no pivots.
  EXPECT_TRUE(std::isnan(Result(DetOf({0, 0, NAN, 0}, 2))[0]));
  EXPECT_TRUE(std::isnan(Cofactors({0, 0, 0, 0, 0, 0, NAN, 0, 0}, 3)[0]));
}

// A kernel holds a matrix outside the arena, even if a damaged plan has none of such an extent.
TEST(Det, LargeMatricesAreRefused) {
  for (const int64_t rows : {int64_t{129}, int64_t{1} << 31}) {
    EXPECT_TRUE(RunReference(DetOf({}, rows)).refused) << rows;
    const OpCase gradient{
        "DetGrad", {}, {Floats({0}, {}), Floats({0, rows, rows}, {})}, {Empty({0, rows, rows})}, {}, {}};
    EXPECT_TRUE(RunReference(gradient).refused) << rows;
  }
}

// Worked out by hand. The determinant is a polynomial, so it has a derivative where it is 0, too.
TEST(Det, CofactorsOfSingularMatrices) {
  EXPECT_EQ(Cofactors({1, 2, 2, 4}, 2), (Numbers{4, -2, -2, 1}));
  EXPECT_EQ(Cofactors({0, 0, 0, 5}, 2), (Numbers{5, 0, 0, 0}));
  EXPECT_EQ(Cofactors({0}, 1), Numbers{1});
  // Rank 2: rows 0 and 1 are dependent, so no change of row 2 changes the determinant.
  EXPECT_EQ(Cofactors({1, 2, 3, 2, 4, 6, 1, 1, 1}, 3), (Numbers{-2, 4, -2, 1, -2, 1, 0, 0, 0}));
  // Rank 3 of 4, with the pivot of 0 before the last one, and rows that are swapped.
  EXPECT_EQ(Cofactors({0, 0, 1, 2, 0, 0, 3, 4, 0, 5, 6, 7, 0, 8, 9, 0}, 4),
            (Numbers{156, 0, 0, 0, -50, 0, 0, 0, -16, 0, 0, 0, 10, 0, 0, 0}));
  // The pivots of both are 0 without a swap of columns, and their rank is n - 1.
  EXPECT_EQ(Cofactors({0, 1, 0, 0}, 2), (Numbers{0, 0, -1, 0}));
  EXPECT_EQ(Cofactors({0, 1, 0, 0, 0, 1, 0, 0, 0}, 3), (Numbers{0, 0, 0, 0, 0, 0, 1, 0, 0}));
  // Rank 1 and 0: every minor is 0.
  EXPECT_EQ(Cofactors({1, 2, 3, 2, 4, 6, 3, 6, 9}, 3), Numbers(9, 0));
  EXPECT_EQ(Cofactors(Numbers(16, 0), 4), Numbers(16, 0));
  EXPECT_EQ(Cofactors(Numbers(4, 0), 2), Numbers(4, 0));
}

double Minor(const Numbers& x, size_t rows, std::vector<size_t> of_rows, std::vector<size_t> of_columns) {
  if (of_rows.empty()) return 1;
  double sum = 0;
  const size_t row = of_rows.back();
  of_rows.pop_back();
  for (size_t j = 0; j < of_columns.size(); ++j) {
    std::vector<size_t> others = of_columns;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(j));
    const double sign = (of_rows.size() + j) % 2 == 0 ? 1 : -1;
    sum += sign * x[row * rows + of_columns[j]] * Minor(x, rows, of_rows, others);
  }
  return sum;
}

// Small whole numbers make a third of the matrices singular.
TEST(Det, CofactorsAreMinors) {
  std::mt19937 engine(1);
  int singular = 0;
  for (int turn = 0; turn < 3000; ++turn) {
    const size_t n = 1 + turn % 4;
    Numbers x(n * n);
    for (float& element : x) element = static_cast<float>(static_cast<int>(engine() % 3) - 1);
    std::vector<size_t> all(n);
    std::iota(all.begin(), all.end(), size_t{0});
    singular += Minor(x, n, all, all) == 0 ? 1 : 0;
    const Numbers found = Cofactors(x, static_cast<int64_t>(n));
    for (size_t i = 0; i < n; ++i)
      for (size_t j = 0; j < n; ++j) {
        std::vector<size_t> rows = all, columns = all;
        rows.erase(rows.begin() + static_cast<std::ptrdiff_t>(i));
        columns.erase(columns.begin() + static_cast<std::ptrdiff_t>(j));
        const double expected = ((i + j) % 2 == 0 ? 1 : -1) * Minor(x, n, rows, columns);
        // Whole numbers below 7 by float64, whose quotients are rounded.
        EXPECT_NEAR(found[i * n + j], expected, 1e-12) << ::testing::PrintToString(x);
      }
  }
  EXPECT_GT(singular, 600);
}

TEST(Det, GradientIsThatOfTheForwardPass) {
  for (const int64_t rows : {1, 2, 3, 5, 8}) {
    const OpCase c{"Det", {}, {Random({3, rows, rows}, 1)}, {Empty({3})}, {}, {}};
    const OpCase grad{"DetGrad", {}, {Floats({3}, {1, 1, 1}), c.inputs[0]}, {Empty({3, rows, rows})}, {}, {}};
    // The determinant is linear in each element, so differences are exact but for float32's rounding of it.
    CheckGradient(c, 0, grad, 1.0f, 2e-5);
  }
}

TEST(Det, RefusesWhatIsNoSquare) {
  for (const std::vector<int64_t>& dims : {std::vector<int64_t>{2, 3}, {3}, {}})
    EXPECT_TRUE(RunReference({"Det", {}, {Random(dims, 1)}, {Empty({})}, {}, {}}).refused);
}

}  // namespace
}  // namespace act
