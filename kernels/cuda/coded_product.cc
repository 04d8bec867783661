#include "kernels/cuda/coded_product.h"

#include <algorithm>
#include <optional>

#include "kernels/cuda/coded_numbers.h"
#include "kernels/cuda/conversion.h"
#include "kernels/cuda/product.h"
#include "kernels/site/coded_operand.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/loss_shape.h"
#include "runtime/plan/workspace.h"

namespace act::cuda {
namespace {

constexpr int64_t kFloat = 4;
// Rows of the weight and of sums are cut into multiples of so many, so that addresses stay aligned.
constexpr int64_t kRows = 64;

// One use of an engine: some rows of the result, and some rows of the weight.
struct Piece {
  int64_t row = 0, at = 0;        // the first of each
  int64_t decoded = 0, head = 0;  // the number with which decoding begins, and those before the piece's first
  int64_t numbers = 0;            // decoded; 0: they are there
  int64_t round = 0;  // sums that are complete then, and become the result; 0: there are more to come
  size_t call = 0;
};

// Workspace: [numbers of a piece][sums in float32 of some rows, if pieces are added up and rounded][the library's].
struct CodedPlan {
  MatMulShape s;
  bool of_sum = false;  // rows of the weight are terms of the sum, not columns of the result
  int64_t factor_bytes = 0, y_bytes = 0;
  int64_t sums_at = 0, library_at = 0, library_bytes = 0;
  bool has_sums = false;
  std::vector<std::shared_ptr<LibraryCall>> calls = {};
  std::vector<ProductProblem> problems = {};  // of the calls
  std::vector<Piece> pieces = {};
};

class CodedProduct final : public Kernel {
 public:
  CodedProduct(const CudaContext& context, CodedPlan plan, const CodedParameter& coded, DType factor)
      : context_(context), plan_(std::move(plan)), decoding_(context, coded, factor) {
    if (!plan_.has_sums) return;
    for (const Piece& piece : plan_.pieces)
      if (piece.round > 0)
        rounding_.emplace_back(context, DType::kFloat32, DType::kBFloat16, piece.round, true);
  }

  std::string Run(const KernelArgs& args) override {
    const MatMulShape& s = plan_.s;
    auto *const workspace = args.workspace.data.as<std::byte>(), *const a = args.inputs[0].as<std::byte>(),
                *const y = args.outputs[0].as<std::byte>(), *const sums = workspace + plan_.sums_at;
    size_t rounded = 0;
    for (const Piece& piece : plan_.pieces) {
      if (piece.numbers > 0) {
        const Status status =
            decoding_.Run(args.inputs[1].as<void>(), piece.decoded, piece.numbers, workspace);
        if (!status.empty()) return status;
      }
      const int64_t a_at = piece.row * s.a_m + (plan_.of_sum ? piece.at * s.a_k : 0),
                    y_at = piece.row * s.n + (plan_.of_sum ? 0 : piece.at);
      std::byte* const pointers[4] = {a + a_at * plan_.factor_bytes,
                                      workspace + piece.head * plan_.factor_bytes,
                                      plan_.has_sums ? sums : y + y_at * plan_.y_bytes, nullptr};
      if (Status status =
              plan_.calls[piece.call]->Enqueue(context_.stream, pointers, workspace + plan_.library_at);
          !status.empty())
        return status;
      if (!plan_.has_sums || piece.round == 0) continue;
      if (Status status = rounding_[rounded++].Run(sums, y + piece.row * s.n * plan_.y_bytes);
          !status.empty())
        return status;
    }
    return "";
  }
  int64_t WorkspaceBytes() const override { return plan_.library_at + plan_.library_bytes; }
  bool IsLibraryCall() const override { return true; }
  std::string Describe() const override {
    return plan_.calls[0]->engine() + ", " + std::to_string(plan_.pieces.size()) + " pieces";
  }

 private:
  const CudaContext& context_;
  const CodedPlan plan_;
  const Decoding decoding_;
  std::vector<Conversion> rounding_;
};

// The engine for the problem, of those that there are or a new one. Nullopt with the reason in *why.
std::optional<size_t> CallFor(const CudaContext& context, const ProductProblem& problem,
                              int64_t workspace_bytes, CodedPlan& plan, std::string* why) {
  const auto known = std::find(plan.problems.begin(), plan.problems.end(), problem);
  if (known != plan.problems.end()) return known - plan.problems.begin();
  std::shared_ptr<LibraryCall> call =
      context.toolkit.products().Choose(problem, workspace_bytes - plan.library_at, why);
  if (!call) return std::nullopt;
  plan.library_bytes = std::max(plan.library_bytes, call->workspace_bytes());
  plan.problems.push_back(problem);
  plan.calls.push_back(std::move(call));
  return plan.calls.size() - 1;
}

}  // namespace

std::unique_ptr<Kernel> CreateCodedProduct(const CudaContext& context, const KernelSite& site,
                                           std::string* why) {
  const TensorView &a = site.inputs[0], &y = site.outputs[0], b = NumbersOf(site.inputs[1]);
  if (!site.inputs[1].coded) return Refuse(why, "its second factor is no code");
  const CodedParameter& coded = *site.inputs[1].coded;
  const auto shape = MixedMatMulShapeOf(site.node->attrs, a, b, y, why);
  if (!shape) return nullptr;
  CodedPlan plan{.s = Folded(*shape)};
  const MatMulShape& s = plan.s;
  if (OptionalInput(site.inputs, 2)) return Refuse(why, "a bias");
  if (site.goes_on) return Refuse(why, "does not go on from a sum");
  if (y.elements == 0 || s.k == 0) return Refuse(why, "an empty tensor");
  if (b.dims.size() != 2 || s.Batches() != 1) return Refuse(why, "several products");
  plan.of_sum = site.node->attrs.Int("trans_b") == 0;
  plan.factor_bytes = ByteSize(a.dtype);
  plan.y_bytes = ByteSize(y.dtype);
  plan.has_sums = plan.of_sum && y.dtype == DType::kBFloat16;
  const int64_t rows = b.dims[0], columns = b.dims[1], group = coded.codec.group_size;
  // A group more, which a piece's first number may lie in.
  const int64_t most = (kCudaCodedPieceBytes / plan.factor_bytes - 2 * group) / columns / kRows * kRows;
  const int64_t length = std::min(most, rows);
  if (length <= 0) return Refuse(why, "64 rows of the weight are too large for a piece");
  plan.sums_at = CudaAligned(std::min(length * columns + 2 * group, b.elements) * plan.factor_bytes);
  int64_t y_rows = s.m;
  if (plan.has_sums) {
    const int64_t fit = (site.workspace_bytes - plan.sums_at) / 2 / (s.n * kFloat);
    if (s.m > fit) y_rows = fit / kRows * kRows;
    if (y_rows <= 0) return Refuse(why, "no workspace for its sums");
  }
  plan.library_at = plan.sums_at + (plan.has_sums ? CudaAligned(y_rows * s.n * kFloat) : 0);
  if (plan.library_at > site.workspace_bytes) return Refuse(why, "no workspace for a piece of the weight");

  ProductProblem problem;
  problem.trans_a = s.a_k != 1;
  problem.trans_b = !plan.of_sum;
  problem.lead_a = problem.trans_a ? std::max(s.a_k, s.m) : std::max(s.a_m, s.k);
  problem.lead_b = columns;
  problem.lead_c = s.n;
  problem.alignment = OperandAlignment(site);
  problem.math = a.dtype == DType::kBFloat16 ? FloatMath::kBFloat16 : context.product_math;
  problem.bfloat16_result = y.dtype == DType::kBFloat16 && !plan.has_sums;
  for (int64_t row = 0; row < s.m; row += y_rows)
    for (int64_t at = 0; at < rows; at += length) {
      const int64_t count = std::min(length, rows - at);
      problem.m = std::min(y_rows, s.m - row);
      problem.n = plan.of_sum ? s.n : count;
      problem.k = plan.of_sum ? count : s.k;
      problem.accumulates = plan.of_sum && at > 0;
      const auto call = CallFor(context, problem, site.workspace_bytes, plan, why);
      if (!call) return nullptr;
      Piece piece{.row = row, .at = at, .call = *call};
      piece.head = at * columns % group;
      piece.decoded = at * columns - piece.head;
      if (rows > length || row == 0) piece.numbers = piece.head + count * columns;
      if (at + count == rows) piece.round = problem.m * s.n;
      plan.pieces.push_back(piece);
    }
  return std::make_unique<CodedProduct>(context, std::move(plan), coded, a.dtype);
}

}  // namespace act::cuda
