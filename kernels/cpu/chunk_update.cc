#include "kernels/cpu/chunk_update.h"

#include <utility>
#include <vector>

#include "kernels/cpu/fused.h"
#include "kernels/cpu/quantized_update.h"
#include "kernels/site/lambda_kernel.h"
#include "runtime/codec/dynamic_map.h"

namespace act {
namespace {

// Operands of the table's elements move from chunk to chunk.
class ProgramLoop final : public ChunkUpdate {
 public:
  static std::unique_ptr<ChunkUpdate> Create(const KernelSite& site, const RowUpdateShape& shape,
                                             int64_t rows, int threads, std::string* why) {
    auto loop = std::make_unique<ProgramLoop>();
    return loop->Make(site, shape, rows, threads, why) ? std::move(loop) : nullptr;
  }

  std::string Run(const KernelArgs& args, int64_t first, float* gradient) override {
    const int64_t offset = first * row_bytes_;
    for (size_t i = 0; i < inputs_.size(); ++i)
      inputs_[i].data = args.inputs[i].data + (moves_[i] ? offset : 0);
    inputs_[rows_].data = DevicePointer(gradient);
    for (size_t i = 0; i < outputs_.size(); ++i) outputs_[i].data = args.outputs[i].data + offset;
    KernelArgs part = args;
    part.inputs = inputs_;
    part.outputs = outputs_;
    part.workspace = {};
    return kernel_->Run(part);
  }

 private:
  bool Make(const KernelSite& site, const RowUpdateShape& shape, int64_t rows, int threads,
            std::string* why) {
    rows_ = shape.at.rows;
    row_bytes_ = shape.row_elements * static_cast<int64_t>(sizeof(float));
    TensorView part = site.inputs[shape.at.table];
    part.dims[0] = rows;
    part.elements = rows * shape.row_elements;
    part.bytes = rows * row_bytes_;
    const size_t operands = site.node->program.inputs.size();
    if (operands != shape.at.index) {
      if (why) *why = "its program has another number of inputs";
      return false;
    }
    for (size_t i = 0; i < operands; ++i) {
      moves_.push_back(i != rows_ && site.inputs[i].dims == site.inputs[shape.at.table].dims);
      inputs_.push_back(moves_[i] || i == rows_ ? part : site.inputs[i]);
    }
    outputs_.assign(site.outputs.size(), part);
    node_ = *site.node;
    node_.program.space[0] = Dim(rows);
    KernelSite chunk = site;
    chunk.node = &node_;
    chunk.inputs = inputs_;
    chunk.outputs = outputs_;
    chunk.workspace_bytes = 0;
    chunk.threads = threads;
    KernelRegistry fused;
    RegisterFusedKernels(fused);
    kernel_ = fused.For("Fused").front().create(chunk, why);
    return kernel_ != nullptr;
  }

  size_t rows_ = 0;  // the operand that is the gradient
  int64_t row_bytes_ = 0;
  Node node_;
  std::vector<TensorView> inputs_, outputs_;
  std::vector<bool> moves_;  // of each input: whether it has the table's elements
  std::unique_ptr<Kernel> kernel_;
};

class QuantizedBlocks final : public ChunkUpdate {
 public:
  QuantizedBlocks(const QuantizedShape& shape, int64_t row_elements, int64_t rows, int threads)
      : shape_(shape), row_elements_(row_elements), rows_(rows), threads_(threads) {}

  std::string Run(const KernelArgs& args, int64_t first, float* gradient) override {
    const int64_t begin = first * row_elements_, end = begin + rows_ * row_elements_;
    UpdateQuantizedBlocks(args, shape_, gradient, begin / kMomentBlock, CeilDiv(end, kMomentBlock), threads_);
    return "";
  }

 private:
  const QuantizedShape shape_;
  const int64_t row_elements_, rows_;
  const int threads_;
};

}  // namespace

std::unique_ptr<ChunkUpdate> ProgramUpdate(const KernelSite& site, const RowUpdateShape& shape, int64_t rows,
                                           int threads, std::string* why) {
  return ProgramLoop::Create(site, shape, rows, threads, why);
}

std::unique_ptr<ChunkUpdate> QuantizedUpdate(std::string_view op, const KernelSite& site,
                                             const RowUpdateShape& shape, int64_t rows, std::string* why) {
  const auto whole = QuantizedShapeOf(op, site, why);
  if (!whole) return nullptr;
  const QuantizedRule& rule = *whole->rule;
  if (shape.at.table == rule.parameter() && shape.at.index == rule.state(rule.states, whole->coded))
    return std::make_unique<QuantizedBlocks>(*whole, shape.row_elements, rows, site.threads);
  if (why) *why = "its table or index is not where it should be";
  return nullptr;
}

}  // namespace act
