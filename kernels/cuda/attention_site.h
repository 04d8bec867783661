// What the kernels of attention and of its gradient share: the parameters of a site, and the form that device code is
// compiled for.
#pragma once

#include <optional>
#include <string>

#include "kernels/cuda/own_kernel.h"
#include "kernels/cuda/source/attention_parameters.h"
#include "kernels/site/attention_shape.h"

namespace act::cuda {

struct AttentionSite {
  AttentionShape shape;
  AttentionParameters parameters;  // but for addresses
  std::string form;                // in device code
  // Products on tensor cores: 64 columns that q, k, v have at most, and bytes of an element in shared memory. 0 if they
  // are not.
  int chunks = 0;
  int element_bytes = 0;

  bool OnTensorCores() const { return chunks > 0; }
  int Threads() const { return OnTensorCores() ? 128 : 256; }  // of a block
  int64_t QueryTiles() const;
  int64_t KeyTiles() const;
  // Of a block: tiles of so many operands, and one of scores.
  int64_t SharedBytes(int operands, bool scores) const;
};

// `first`: the position of q. `o`: the result of attention, or its gradient. `result`: of what the kernel writes.
// Nullopt, with the reason in *why, if the kernels do not take it.
std::optional<AttentionSite> AttentionSiteOf(const CudaContext& context, const KernelSite& site, size_t first,
                                             const TensorView& o, DType result, std::string* why);

// Whether every matrix of `tensor` begins where so many elements may be loaded at once, and so does each row.
bool TakesVectors(const TensorView& tensor, const MatrixSlices& m, int64_t columns, int64_t elements);

// q, k, v, bias and mask.
void FillAddresses(const CudaContext& context, const KernelArgs& args, size_t first, AttentionParameters& p);

// How a result of so many columns is cut into columns of blocks, each a kernel's groups of 64.
struct ResultColumns {
  int groups = 1;  // 1 or 2
  int64_t tiles = 0;
  explicit ResultColumns(int64_t columns);
};

// The device function `function` of `header`. `arguments`: of its template, after the form. `operands`, `scores`: tiles
// that it holds in shared memory. Two blocks of FloatTiles fit a multiprocessor, or three of TensorTiles, which are half
// as large and take more registers.
template <class Parameters, class... Arguments>
OwnKernel<Parameters> AttentionKernel(const CudaContext& context, const AttentionSite& site,
                                      const std::string& name, const std::string& parameters,
                                      const std::string& header, const std::string& function, int operands,
                                      bool scores, const Arguments&... arguments) {
  return {context,
          SourceWith(name, site.Threads(), parameters, header,
                     "  act::cuda::" + function + TemplateArguments(site.form, arguments...) + "(p);\n",
                     site.OnTensorCores() ? 3 : 2),
          site.Threads(), site.SharedBytes(operands, scores)};
}

}  // namespace act::cuda
