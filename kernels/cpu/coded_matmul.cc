// Products of a bfloat16 factor and a large frozen weight that lies in memory as a code: the last layer of a language
// model, whose columns are its words, and the gradient of that layer's input. Each thread takes some columns of the
// result. It decodes a piece of the weight into its own scratch space, where a cache keeps it, has oneDNN multiply it,
// and goes on with the next. So threads wait for each other once a product.
#include <algorithm>
#include <array>
#include <optional>

#include "kernels/cpu/coded_numbers.h"
#include "kernels/cpu/convert_bfloat16.h"
#include "kernels/cpu/cut.h"
#include "kernels/cpu/instructions.h"
#include "kernels/cpu/matmul.h"
#include "kernels/site/coded_operand.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/loss_shape.h"
#include "kernels/site/workspace_text.h"
#include "runtime/plan/workspace.h"

namespace act {
namespace {

using dnnl::memory;

constexpr auto kF32 = memory::data_type::f32, kBF16 = memory::data_type::bf16;
// What pieces are multiples of, so that vectors are full.
constexpr int64_t kUnit = 64;
// Longer sums are divided: with all terms, a piece would be too narrow.
constexpr int64_t kMostTerms = 4096;
constexpr int64_t kFloat = sizeof(float), kHalf = sizeof(BFloat16);

// A piece of the weight: [terms, columns], of which the rows in memory are either.
struct CodedProduct {
  MatMulShape s;
  CodedNumbers code;
  DType y = DType::kFloat32;
  int threads = 1;
  Cut columns = {}, terms = {};

  int64_t ColumnsOf(int64_t block) const { return columns.LengthAt(block * columns.length); }
  int64_t TermsOf(int64_t piece) const { return terms.LengthAt(piece * terms.length); }
  bool RowsAreTerms() const { return s.b_n == 1; }
  // A bfloat16 result cannot hold the sums of several pieces.
  bool HasSums() const { return y == DType::kBFloat16 && terms.Count() > 1; }
  int64_t PieceBytes() const { return RoundUp(columns.LengthAt(0) * terms.LengthAt(0) * kHalf, 64); }
  int64_t SumsBytes() const { return HasSums() ? RoundUp(s.m * columns.LengthAt(0) * kFloat, 64) : 0; }
};

// A product of a piece, for one thread.
struct Call {
  DnnlCall product;
  size_t a = 0, b = 0, y = 0, scratch = 0;
  int64_t scratch_bytes = 0;
};

// Nullopt if oneDNN has no implementation that needs at most `limit` bytes. `adds`: to what the sums hold.
std::optional<Call> MakeCall(const DnnlContext& context, const CodedProduct& p, int64_t columns,
                             int64_t terms, bool adds, int64_t limit, std::string* reason) {
  const MatMulShape& s = p.s;
  const memory::desc a = DnnlMatrix(kBF16, s.a_batch, s.m, terms, s.a_m, s.a_k);
  const memory::desc b = p.RowsAreTerms() ? DnnlMatrix(kBF16, s.b_batch, terms, columns, columns, 1)
                                          : DnnlMatrix(kBF16, s.b_batch, terms, columns, 1, terms);
  const memory::desc y = DnnlMatrix(p.y == DType::kBFloat16 && !p.HasSums() ? kBF16 : kF32,
                                    DnnlResultBatch(s), s.m, columns, p.HasSums() ? columns : s.n, 1);
  dnnl::matmul::primitive_desc desc(context.engine, a, b, y, ProductAttributes(adds));
  const auto bytes = [](const auto& d) { return AlignedBytes(d.scratchpad_desc()); };
  if (!MoveToFirstThatFits(desc, bytes, limit, reason)) return std::nullopt;
  Call call;
  call.product = DnnlCall(context, dnnl::matmul(desc));
  call.a = call.product.Bind(DNNL_ARG_SRC, a);
  call.b = call.product.Bind(DNNL_ARG_WEIGHTS, b);
  call.y = call.product.Bind(DNNL_ARG_DST, y);
  call.scratch = call.product.Bind(DNNL_ARG_SCRATCHPAD, desc.scratchpad_desc());
  call.scratch_bytes = bytes(desc);
  return call;
}

// Workspace, of each thread: [piece][sums][oneDNN's].
class CodedMatMul final : public Kernel {
 public:
  explicit CodedMatMul(CodedProduct product) : p_(std::move(product)) {}

  // Makes the calls of all threads. False if they do not fit, with the reason.
  bool Make(const DnnlContext& context, int64_t limit_bytes, std::string* reason) {
    const ThreadScope scope(1);
    const int64_t left = limit_bytes / p_.threads - p_.PieceBytes() - p_.SumsBytes();
    for (const int64_t block : {int64_t{0}, p_.columns.Count() - 1})
      for (const int64_t piece : {int64_t{0}, int64_t{1}, p_.terms.Count() - 1}) {
        if (piece >= p_.terms.Count()) continue;
        std::vector<Call>& of_threads = CallsFor(block, piece);
        if (!of_threads.empty()) continue;
        for (int t = 0; t < p_.threads; ++t) {
          std::optional<Call> call =
              MakeCall(context, p_, p_.ColumnsOf(block), p_.TermsOf(piece), piece > 0, left, reason);
          if (!call) return false;
          scratch_bytes_ = std::max(scratch_bytes_, call->scratch_bytes);
          of_threads.push_back(std::move(*call));
        }
      }
    return true;
  }

  int64_t WorkspaceBytes() const override { return p_.threads * ThreadBytes(); }
  bool IsLibraryCall() const override { return true; }
  std::string Describe() const override {
    return "pieces of " + std::to_string(p_.terms.LengthAt(0)) + " x " +
           std::to_string(p_.columns.LengthAt(0)) + ", " + std::to_string(p_.threads) + " threads, " +
           WorkspaceText(WorkspaceBytes());
  }

  std::string Run(const KernelArgs& args) override {
    std::string error;
#pragma omp parallel for schedule(dynamic, 1) num_threads(p_.threads)
    for (int64_t block = 0; block < p_.columns.Count(); ++block) {
      std::string failed = RunColumns(args, block, omp_get_thread_num());
      if (failed.empty()) continue;
#pragma omp critical
      error = std::move(failed);
    }
    return error;
  }

 private:
  int64_t ThreadBytes() const { return p_.PieceBytes() + p_.SumsBytes() + scratch_bytes_; }

  // The calls for a piece, by the thread: it is of all lengths or the last, and begins sums or goes on.
  std::vector<Call>& CallsFor(int64_t block, int64_t piece) {
    const bool narrow = p_.ColumnsOf(block) < p_.columns.LengthAt(0);
    const bool short_sum = p_.TermsOf(piece) < p_.terms.LengthAt(0);
    return calls_[narrow ? 1 : 0][piece == 0 ? 0 : short_sum ? 2 : 1];
  }

  std::string RunColumns(const KernelArgs& args, int64_t block, int thread) {
    const int64_t column = block * p_.columns.length, columns = p_.ColumnsOf(block);
    std::byte* const own = args.workspace.data.as<std::byte>() + thread * ThreadBytes();
    auto* const piece = reinterpret_cast<BFloat16*>(own);
    auto* const sums = reinterpret_cast<float*>(own + p_.PieceBytes());
    std::byte* const y = args.outputs[0].as<std::byte>() + column * ByteSize(p_.y);
    for (int64_t i = 0; i < p_.terms.Count(); ++i) {
      const int64_t term = i * p_.terms.length, terms = p_.TermsOf(i);
      Decode(args.inputs[1].as<void>(), column, columns, term, terms, piece);
      Call& call = CallsFor(block, i)[static_cast<size_t>(thread)];
      call.product.Set(call.a, args.inputs[0].as<const BFloat16>() + term * p_.s.a_k);
      call.product.Set(call.b, piece);
      call.product.Set(call.y, p_.HasSums() ? static_cast<void*>(sums) : y);
      call.product.Set(call.scratch, own + p_.PieceBytes() + p_.SumsBytes());
      if (std::string error = call.product.Run(); !error.empty()) return error;
    }
    for (int64_t row = 0; p_.HasSums() && row < p_.s.m; ++row)
      RoundToBFloat16(sums + row * columns, columns, reinterpret_cast<BFloat16*>(y) + row * p_.s.n, 1);
    return "";
  }

  void Decode(const void* code, int64_t column, int64_t columns, int64_t term, int64_t terms,
              BFloat16* to) const {
    const bool of_terms = p_.RowsAreTerms();
    const int64_t first = term * p_.s.b_k + column * p_.s.b_n, stride = of_terms ? p_.s.b_k : p_.s.b_n,
                  rows = of_terms ? terms : columns, length = of_terms ? columns : terms;
    for (int64_t r = 0; r < rows; ++r) p_.code.Read(code, first + r * stride, length, to + r * length);
  }

  CodedProduct p_;
  std::array<std::array<std::vector<Call>, 3>, 2> calls_;
  int64_t scratch_bytes_ = 0;
};

// Pieces that fit each of so many threads. False if none do.
bool CutIntoPieces(int64_t group, CodedProduct& p) {
  const int64_t n = p.s.n, k = p.s.k,
                most = std::min(kCodedPieceBytes, kCodedPiecesBytes / p.threads) / kHalf;
  // Rows of terms are cut between groups, so that none is decoded twice.
  const int64_t unit = p.RowsAreTerms() && n >= group * p.threads ? std::max(group, kUnit) : kUnit;
  const int64_t shared = RoundUp(CeilDiv(n, p.threads), unit);
  p.terms = {k, k};
  p.columns = {n, std::min({most / k / unit * unit, shared, n})};
  if (k <= kMostTerms && p.columns.length > 0) return true;
  for (int64_t columns = std::min(shared, 8 * kUnit); columns > 0; columns -= kUnit) {
    p.columns.length = std::min(columns, n);
    p.terms.length = std::min(k, most / RoundUp(p.columns.length, kUnit) / kUnit * kUnit);
    if (p.terms.length > 0 && p.SumsBytes() <= kRoundedSumBytes / p.threads) return true;
  }
  return false;
}

std::unique_ptr<Kernel> Create(const DnnlContext& context, const KernelSite& site, std::string* why) {
  const TensorView &a = site.inputs[0], &y = site.outputs[0], b = NumbersOf(site.inputs[1]);
  const CodedParameter* const coded = site.inputs[1].coded;
  if (!coded) return Refuse(why, "its second factor is no code");
  const auto shape = MixedMatMulShapeOf(site.node->attrs, a, b, y, why);
  if (!shape) return nullptr;
  if (a.dtype != DType::kBFloat16) return Refuse(why, "needs a bfloat16 factor");
  if (!HasIsa(dnnl::cpu_isa::avx512_core_bf16))
    return Refuse(why, "the processor has no bfloat16 arithmetic");
  if (OptionalInput(site.inputs, 2)) return Refuse(why, "a bias");
  if (a.elements == 0 || y.elements == 0) return Refuse(why, "an empty tensor");
  if (site.goes_on) return Refuse(why, "does not go on from a sum");
  std::string reason = "its sums do not fit into the workspace";
  for (const int threads : ThreadLadder(site.threads)) {
    CodedProduct p{.s = Folded(*shape), .code = CodedNumbers(*coded), .y = y.dtype, .threads = threads};
    if (p.s.Batches() != 1) return Refuse(why, "several products");
    if (!CutIntoPieces(coded->codec.group_size, p)) continue;
    try {
      auto kernel = std::make_unique<CodedMatMul>(std::move(p));
      if (kernel->Make(context, site.workspace_bytes, &reason)) return kernel;
    } catch (const dnnl::error& error) {
      reason = error.what();
    }
  }
  return Refuse(why, reason);
}

}  // namespace

void RegisterCodedMatMul(KernelRegistry& registry, const std::shared_ptr<DnnlContext>& context) {
  registry.Add("MatMul", {"dnnl.coded_matmul", [context](const KernelSite& site, std::string* why) {
                            return Create(*context, site, why);
                          }});
}

}  // namespace act
