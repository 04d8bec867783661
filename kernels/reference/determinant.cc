#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/reference/registry.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"
#include "runtime/plan/operand_extents.h"

namespace act {
namespace {

struct Matrices {
  int64_t count = 0, rows = 0;
};

// x: [..,n,n], det: [..]
std::optional<Matrices> MatricesOf(const TensorView& x, const TensorView& det, std::string* why) {
  const size_t rank = x.dims.size();
  const bool fits = x.dtype == DType::kFloat32 && det.dtype == DType::kFloat32 && rank >= 2 &&
                    x.dims[rank - 1] == x.dims[rank - 2] &&
                    std::vector(x.dims.begin(), x.dims.end() - 2) == det.dims;
  if (fits && x.dims[rank - 1] <= kMostDeterminantRows) return Matrices{det.elements, x.dims[rank - 1]};
  if (why)
    *why = "f32 [..,n,n] of at most " + std::to_string(kMostDeterminantRows) +
           " rows and a number for each matrix only";
  return std::nullopt;
}

// P x Q = L U, in float64. L has ones on its diagonal. Rows are swapped for the largest pivot, columns only where
// all that is left of one is 0: so the pivots of 0 come last, one for each dimension that the rank lacks.
class Elimination {
 public:
  explicit Elimination(int64_t rows)
      : n_(static_cast<size_t>(rows)), lu_(n_ * n_), rows_(n_), columns_(n_), solution_(n_), left_(n_) {}

  void Run(const float* x) {
    std::copy_n(x, lu_.size(), lu_.begin());
    std::iota(rows_.begin(), rows_.end(), size_t{0});
    std::iota(columns_.begin(), columns_.end(), size_t{0});
    sign_ = 1;
    for (rank_ = 0; rank_ < n_ && FindPivot(rank_); ++rank_) {
      const size_t k = rank_;
      for (size_t i = k + 1; i < n_; ++i) {
        At(i, k) /= At(k, k);
        for (size_t j = k + 1; j < n_; ++j) At(i, j) -= At(i, k) * At(k, j);
      }
    }
  }

  double Determinant() { return rank_ == n_ ? ProductOfPivots() : 0; }

  // dx = dy times the cofactors of x.
  void Cofactors(float dy, float* dx) {
    if (rank_ == n_) return CofactorsByInverse(dy * ProductOfPivots(), dx);
    if (rank_ + 1 == n_) return CofactorsOfNextRank(dy * ProductOfPivots(), dx);
    std::fill_n(dx, lu_.size(), 0.0f);  // every minor is 0
  }

 private:
  double& At(size_t i, size_t j) { return lu_[i * n_ + j]; }

  // Swaps a pivot to (k, k). False: what is left is all 0.
  bool FindPivot(size_t k) {
    for (size_t column = k; column < n_; ++column) {
      size_t pivot = k;
      for (size_t i = k + 1; i < n_; ++i)
        // A NaN is a pivot, so that it shows in the result.
        if (std::isnan(At(i, column)) || std::fabs(At(i, column)) > std::fabs(At(pivot, column))) pivot = i;
      if (At(pivot, column) == 0) continue;
      if (pivot != k) {
        for (size_t j = 0; j < n_; ++j) std::swap(At(k, j), At(pivot, j));
        std::swap(rows_[k], rows_[pivot]);
        sign_ = -sign_;
      }
      if (column != k) {
        for (size_t i = 0; i < n_; ++i) std::swap(At(i, k), At(i, column));
        std::swap(columns_[k], columns_[column]);
        sign_ = -sign_;
      }
      return true;
    }
    return false;
  }

  double ProductOfPivots() {
    double product = sign_;
    for (size_t k = 0; k < rank_; ++k) product *= At(k, k);
    return product;
  }

  // U solution = solution, from row `end` - 1 up.
  void SolveUpper(size_t end) {
    for (size_t i = end; i-- > 0;) {
      for (size_t j = i + 1; j < n_; ++j) solution_[i] -= At(i, j) * solution_[j];
      solution_[i] /= At(i, i);
    }
  }

  // The cofactors are the determinant times the transposed inverse.
  void CofactorsByInverse(double determinant, float* dx) {
    for (size_t c = 0; c < n_; ++c) {
      // Column c of the inverse: L U Q' column = P e_c.
      for (size_t i = 0; i < n_; ++i) {
        solution_[i] = rows_[i] == c ? 1 : 0;
        for (size_t j = 0; j < i; ++j) solution_[i] -= At(i, j) * solution_[j];
      }
      SolveUpper(n_);
      for (size_t i = 0; i < n_; ++i)
        dx[c * n_ + columns_[i]] = static_cast<float>(determinant * solution_[i]);
    }
  }

  // Where the last pivot of U alone is 0, the adjugate of U is the product of the others times
  // solution e_n', with U solution = 0 and solution_n = 1. That of L U is this times L^-1.
  void CofactorsOfNextRank(double others, float* dx) {
    std::fill(solution_.begin(), solution_.end(), 0);
    std::fill(left_.begin(), left_.end(), 0);
    solution_[n_ - 1] = left_[n_ - 1] = 1;
    SolveUpper(n_ - 1);
    for (size_t i = n_ - 1; i-- > 0;)
      for (size_t j = i + 1; j < n_; ++j) left_[i] -= At(j, i) * left_[j];
    for (size_t i = 0; i < n_; ++i)
      for (size_t j = 0; j < n_; ++j)
        dx[rows_[i] * n_ + columns_[j]] = static_cast<float>(others * left_[i] * solution_[j]);
  }

  size_t n_;
  std::vector<double> lu_;
  std::vector<size_t> rows_, columns_;  // of x: element (i, j) of L U is x's (rows_[i], columns_[j])
  std::vector<double> solution_, left_;
  size_t rank_ = 0;
  double sign_ = 1;  // of the swaps
};

// x -> y
std::unique_ptr<Kernel> Det(const KernelSite& site, std::string* why) {
  const auto shape = MatricesOf(site.inputs[0], site.outputs[0], why);
  if (!shape) return nullptr;
  return MakeKernel([s = *shape, work = Elimination(shape->rows)](const KernelArgs& args) mutable {
    const float* x = args.inputs[0].as<float>();
    float* y = args.outputs[0].as<float>();
    for (int64_t m = 0; m < s.count; ++m) {
      work.Run(x + m * s.rows * s.rows);
      y[m] = static_cast<float>(work.Determinant());
    }
    return std::string();
  });
}

// dy, x -> dx
std::unique_ptr<Kernel> DetGrad(const KernelSite& site, std::string* why) {
  const auto shape = MatricesOf(site.inputs[1], site.inputs[0], why);
  if (!shape) return nullptr;
  if (site.outputs[0].dims != site.inputs[1].dims || site.outputs[0].dtype != DType::kFloat32) {
    if (why) *why = "dx does not fit x";
    return nullptr;
  }
  return MakeKernel([s = *shape, work = Elimination(shape->rows)](const KernelArgs& args) mutable {
    const float *dy = args.inputs[0].as<float>(), *x = args.inputs[1].as<float>();
    float* dx = args.outputs[0].as<float>();
    for (int64_t m = 0; m < s.count; ++m) {
      work.Run(x + m * s.rows * s.rows);
      work.Cofactors(dy[m], dx + m * s.rows * s.rows);
    }
    return std::string();
  });
}

}  // namespace

void RegisterReferenceDeterminant(KernelRegistry& registry) {
  registry.Add("Det", {"reference.det", Det});
  registry.Add("DetGrad", {"reference.det_grad", DetGrad});
}

}  // namespace act
