#include "kernels/nvidia/cublaslt_product.h"

#include <cublasLt.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "kernels/cuda/problem_text.h"

namespace act::cuda {
namespace {

Status Check(cublasStatus_t result, const char* call) {
  return result == CUBLAS_STATUS_SUCCESS ? "" : std::string(call) + ": " + cublasLtGetStatusString(result);
}

// cuBLASLt's descriptors of a product, and the algorithm chosen for it.
//
// Its matrices are column-major, so that ours are theirs transposed: it computes c^T = op(b)^T op(a)^T, n
// rows and m columns, with our b as its first operand and our a as its second. Our bias, an element a column
// of c, is an element a row of c^T, as its epilogue wants it.
struct Matmul {
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
  int64_t workspace_bytes = 0;
  std::string name;

  Matmul() = default;
  Matmul(const Matmul&) = delete;
  Matmul& operator=(const Matmul&) = delete;
  ~Matmul() {
    for (cublasLtMatrixLayout_t layout : {a, b, c})
      if (layout) cublasLtMatrixLayoutDestroy(layout);
    if (product) cublasLtMatmulDescDestroy(product);
  }
};

// The layout of a row-major matrix as it is stored, for cuBLASLt: its transpose.
Status Layout(int64_t rows, int64_t columns, int64_t lead, int64_t batch, int64_t stride, bool bfloat16,
              cublasLtMatrixLayout_t* layout) {
  Status status =
      Check(cublasLtMatrixLayoutCreate(layout, bfloat16 ? CUDA_R_16BF : CUDA_R_32F, columns, rows, lead),
            "cublasLtMatrixLayoutCreate");
  if (!status.empty()) return status;
  const int32_t count = static_cast<int32_t>(batch);
  status = Check(
      cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count),
      "CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT");
  if (!status.empty()) return status;
  return Check(cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
                                                sizeof stride),
               "CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET");
}

Status Describe(const ProductProblem& p, Matmul* matmul) {
  const cublasComputeType_t compute =
      p.math == FloatMath::kTf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  Status status =
      Check(cublasLtMatmulDescCreate(&matmul->product, compute, CUDA_R_32F), "cublasLtMatmulDescCreate");
  const auto set = [&](cublasLtMatmulDescAttributes_t name, const auto& value) {
    if (status.empty())
      status = Check(cublasLtMatmulDescSetAttribute(matmul->product, name, &value, sizeof value),
                     "cublasLtMatmulDescSetAttribute");
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, p.trans_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_TRANSB, p.trans_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (p.has_bias) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, CUDA_R_32F);
    // Algorithms are chosen by whether there is a bias and how its address is aligned. Enqueue sets the
    // address.
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<uintptr_t>(p.alignment));
  }
  const bool bfloat16 = p.math == FloatMath::kBFloat16;
  if (status.empty())
    status = Layout(p.trans_a ? p.k : p.m, p.trans_a ? p.m : p.k, p.lead_a, p.batch, p.stride_a, bfloat16,
                    &matmul->a);
  if (status.empty())
    status = Layout(p.trans_b ? p.n : p.k, p.trans_b ? p.k : p.n, p.lead_b, p.batch, p.stride_b, bfloat16,
                    &matmul->b);
  if (status.empty()) status = Layout(p.m, p.n, p.lead_c, p.batch, p.stride_c, p.bfloat16_result, &matmul->c);
  return status;
}

// "cublasLt algorithm 21, tile 20, split 1".
std::string NameOf(const cublasLtMatmulAlgo_t& algorithm) {
  const auto get = [&](cublasLtMatmulAlgoConfigAttributes_t name) {
    int32_t value = 0;
    size_t written = 0;
    cublasLtMatmulAlgoConfigGetAttribute(&algorithm, name, &value, sizeof value, &written);
    return std::to_string(value);
  };
  return "cublasLt algorithm " + get(CUBLASLT_ALGO_CONFIG_ID) + ", tile " +
         get(CUBLASLT_ALGO_CONFIG_TILE_ID) + ", split " + get(CUBLASLT_ALGO_CONFIG_SPLITK_NUM);
}

// The first algorithm of the heuristics. Results are the same bits at every run: "by design, all cuBLAS API
// routines from a given toolkit version generate the same bit-wise results at every run when executed on GPUs
// with the same architecture and the same number of SMs" (cuBLAS documentation, 2.1.4). Its exception,
// workspaces of the library's own while several streams run, is none of ours: a product gets its workspace
// from the caller. Parts of a split sum are added in a step of their own, in a fixed order, and not in the
// order in which blocks come to the output.
Status ChooseAlgorithm(cublasLtHandle_t handle, const ProductProblem& problem, int64_t limit,
                       Matmul* matmul) {
  cublasLtMatmulPreference_t preference = nullptr;
  Status status = Check(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t name, const auto& value) {
    if (status.empty())
      status = Check(cublasLtMatmulPreferenceSetAttribute(preference, name, &value, sizeof value),
                     "cublasLtMatmulPreferenceSetAttribute");
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(std::max<int64_t>(limit, 0)));
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  for (const auto name :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    set(name, static_cast<uint32_t>(problem.alignment));
  cublasLtMatmulHeuristicResult_t result{};
  int found = 0;
  if (status.empty())
    status = Check(cublasLtMatmulAlgoGetHeuristic(handle, matmul->product, matmul->b, matmul->a, matmul->c,
                                                  matmul->c, preference, 1, &result, &found),
                   "cublasLtMatmulAlgoGetHeuristic");
  if (preference) cublasLtMatmulPreferenceDestroy(preference);
  if (status.empty() && found == 0) status = "cublasLtMatmulAlgoGetHeuristic: no algorithm";
  if (status.empty()) status = Check(result.state, "the first algorithm of cublasLtMatmulAlgoGetHeuristic");
  if (!status.empty()) return status;
  matmul->algorithm = result.algo;
  matmul->workspace_bytes = static_cast<int64_t>(result.workspaceSize);
  matmul->name = NameOf(result.algo);
  return "";
}

class Product : public LibraryCall {
 public:
  Product(cublasLtHandle_t handle, const CardContext& context, std::shared_ptr<Matmul> matmul,
          const ProductProblem& problem)
      : handle_(handle),
        context_(context),
        matmul_(std::move(matmul)),
        alignment_(problem.alignment),
        beta_(problem.accumulates ? 1 : 0) {}
  int64_t workspace_bytes() const override { return matmul_->workspace_bytes; }
  std::string engine() const override { return matmul_->name; }

  Status Enqueue(Stream* stream, std::byte* const operands[4], std::byte* workspace) override {
    for (int i = 0; i < 4; ++i)  // the bias is null if there is none
      if (reinterpret_cast<uintptr_t>(operands[i]) % alignment_)
        return "an operand of a product is not aligned to " + std::to_string(alignment_) + " bytes";
    Status status = context_.Bind();
    const std::byte* bias = operands[3];
    if (status.empty() && bias)
      status = Check(cublasLtMatmulDescSetAttribute(matmul_->product, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                                    &bias, sizeof bias),
                     "CUBLASLT_MATMUL_DESC_BIAS_POINTER");
    if (!status.empty()) return status;
    const float one = 1;
    return Check(cublasLtMatmul(handle_, matmul_->product, &one, operands[1], matmul_->b, operands[0],
                                matmul_->a, &beta_, operands[2], matmul_->c, operands[2], matmul_->c,
                                &matmul_->algorithm, workspace, static_cast<size_t>(matmul_->workspace_bytes),
                                reinterpret_cast<cudaStream_t>(StreamOf(stream))),
                 "cublasLtMatmul");
  }

 private:
  cublasLtHandle_t handle_;
  const CardContext& context_;
  const std::shared_ptr<Matmul> matmul_;
  const int64_t alignment_;
  const float beta_;
};

class CublasLtLibrary : public ProductLibrary {
 public:
  explicit CublasLtLibrary(const CardContext& context) : context_(context) {}
  ~CublasLtLibrary() override {
    if (handle_) cublasLtDestroy(handle_);
  }
  Status Open() {
    const Status status = context_.Bind();
    return status.empty() ? Check(cublasLtCreate(&handle_), "cublasLtCreate") : status;
  }

  std::unique_ptr<LibraryCall> Choose(const ProductProblem& problem, int64_t limit,
                                      std::string* why) override {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Matmul>& known = known_[TextOf(problem) + " within " + std::to_string(limit)];
    if (!known) {
      auto matmul = std::make_shared<Matmul>();
      *why = context_.Bind();
      if (why->empty()) *why = Describe(problem, matmul.get());
      if (why->empty()) *why = ChooseAlgorithm(handle_, problem, limit, matmul.get());
      if (!why->empty()) {
        *why = "cuBLASLt has no engine for a " + TextOf(problem) + ": " + *why;
        return nullptr;
      }
      known = std::move(matmul);
    }
    return std::make_unique<Product>(handle_, context_, known, problem);
  }

 private:
  const CardContext& context_;
  cublasLtHandle_t handle_ = nullptr;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Matmul>> known_;
};

class PlannedProduct : public LibraryCall {
 public:
  explicit PlannedProduct(int64_t limit) : limit_(limit) {}
  int64_t workspace_bytes() const override { return limit_; }
  std::string engine() const override { return "cublasLt, chosen on the card"; }
  Status Enqueue(Stream*, std::byte* const[4], std::byte*) override {
    return "a product cannot run on a card that is only described";
  }

 private:
  const int64_t limit_;
};

class DescribedLibrary : public ProductLibrary {
 public:
  std::unique_ptr<LibraryCall> Choose(const ProductProblem&, int64_t limit, std::string*) override {
    return std::make_unique<PlannedProduct>(limit);
  }
};

}  // namespace

std::unique_ptr<ProductLibrary> OpenCublasLt(const CardContext& context, Status* error) {
  auto library = std::make_unique<CublasLtLibrary>(context);
  *error = library->Open();
  return error->empty() ? std::move(library) : nullptr;
}

std::unique_ptr<ProductLibrary> DescribedProducts() { return std::make_unique<DescribedLibrary>(); }

}  // namespace act::cuda
