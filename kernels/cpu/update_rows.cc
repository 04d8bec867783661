// Updates of a table of which rows have a gradient. The gradient of a chunk of the table's rows is made in the
// scratch space, and the kernel of the whole update runs on that chunk. Rows are sorted by chunk first, in their
// order, so each element receives its terms as in a scatter, and the bits are those of the whole update.
#include "kernels/cpu/update_rows.h"

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cpu/fused.h"
#include "kernels/reference/quantized_update.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/row_update_shape.h"
#include "runtime/codec/dynamic_map.h"

namespace act {
namespace {

// Rows first .. first + count - 1 of the table.
struct Chunk {
  int64_t position, first, count;
};

// The update of a chunk.
class ChunkUpdate {
 public:
  virtual ~ChunkUpdate() = default;
  // Returns an error, or an empty string.
  virtual std::string Run(const KernelArgs& args, const Chunk& chunk, float* gradient) = 0;
};

class UpdateRows final : public Kernel {
 public:
  UpdateRows(const RowUpdateShape& shape, std::unique_ptr<ChunkUpdate> update, int threads)
      : shape_(shape),
        chunks_(RowChunksOf(shape.table_rows, shape.row_elements)),
        scratch_(RowUpdateScratchOf(shape.table_rows, shape.row_elements, shape.indices)),
        update_(std::move(update)),
        threads_(std::max(threads, 1)) {}

  std::string Run(const KernelArgs& args) override {
    if (std::string wrong = shape_.lookup.CheckIndices(args.inputs[shape_.at.index]); !wrong.empty())
      return wrong;
    if (args.inputs[shape_.at.table].elements == 0) return "";
    auto* gradient = args.workspace.data.as<float>();
    auto* start = (args.workspace.data + scratch_.start_offset).as<int64_t>();
    auto* order = (args.workspace.data + scratch_.order_offset).as<int64_t>();
    Sort(args, start, order);
    for (int64_t c = 0; c < chunks_.chunks; ++c) {
      const int64_t first = c * chunks_.rows;
      const Chunk chunk{c, first, std::min(chunks_.rows, shape_.table_rows - first)};
      AddRows(args, chunk, {order + start[c], order + start[c + 1]}, gradient);
      if (std::string wrong = update_->Run(args, chunk, gradient); !wrong.empty()) return wrong;
    }
    return "";
  }

  int64_t WorkspaceBytes() const override { return scratch_.bytes; }
  std::string Describe() const override {
    return std::to_string(chunks_.chunks) + " chunks of " + std::to_string(chunks_.rows) + " rows";
  }

 private:
  // Rows of chunk c are order[start[c]] .. order[start[c + 1] - 1].
  void Sort(const KernelArgs& args, int64_t* start, int64_t* order) const {
    std::fill_n(start, chunks_.chunks + 1, 0);
    ForRowsThatCount(shape_, args, [&](int64_t, int64_t row) { ++start[row / chunks_.rows]; });
    int64_t before = 0;
    for (int64_t c = 0; c < chunks_.chunks; ++c) before += std::exchange(start[c], before);
    ForRowsThatCount(shape_, args, [&](int64_t i, int64_t row) { order[start[row / chunks_.rows]++] = i; });
    // Each start is now the end of its chunk, which is the start of the next.
    std::copy_backward(start, start + chunks_.chunks, start + chunks_.chunks + 1);
    start[0] = 0;
  }

  // Threads write different columns, or different rows where these are short.
  void AddRows(const KernelArgs& args, const Chunk& chunk, std::span<const int64_t> order,
               float* gradient) const {
    constexpr int64_t kColumns = 64;  // four cache lines, so that threads share no line
    const int64_t length = shape_.row_elements, threads = threads_;
    const bool by_columns = length >= kColumns * threads;
    const float* rows = args.inputs[shape_.at.rows].as<float>();
    const TensorView& index = args.inputs[shape_.at.index];
#pragma omp parallel for num_threads(threads_) schedule(static, 1) if (threads_ > 1)
    for (int64_t p = 0; p < threads; ++p) {
      const auto cut = [p, threads](int64_t count, int64_t unit, int64_t more) {
        return std::min(count, CeilDiv(count, unit) * (p + more) / threads * unit);
      };
      const int64_t column = by_columns ? cut(length, kColumns, 0) : 0,
                    columns = (by_columns ? cut(length, kColumns, 1) : length) - column,
                    first = by_columns ? 0 : cut(chunk.count, 1, 0),
                    last = by_columns ? chunk.count : cut(chunk.count, 1, 1);
      for (int64_t row = first; row < last; ++row)
        std::fill_n(gradient + row * length + column, columns, 0.0f);
      for (const int64_t i : order) {
        const int64_t row = IndexAt(index, i, shape_.table_rows) - chunk.first;
        if (row < first || row >= last) continue;
        float* to = gradient + row * length + column;
        const float* from = rows + i * length + column;
        for (int64_t k = 0; k < columns; ++k) to[k] += from[k];
      }
    }
  }

  const RowUpdateShape shape_;
  const RowChunks chunks_;
  const RowUpdateScratch scratch_;
  const std::unique_ptr<ChunkUpdate> update_;
  const int threads_;
};

// A program's loop over a chunk: operands of the table's elements move from chunk to chunk.
class FusedUpdate final : public ChunkUpdate {
 public:
  static std::unique_ptr<ChunkUpdate> Create(const KernelSite& site, const RowUpdateShape& shape,
                                             std::string* why) {
    auto update = std::make_unique<FusedUpdate>();
    const RowChunks chunks = RowChunksOf(shape.table_rows, shape.row_elements);
    update->rows_ = shape.at.rows;
    update->row_bytes_ = shape.row_elements * static_cast<int64_t>(sizeof(float));
    update->last_chunk_ = chunks.chunks - 1;
    if (chunks.chunks == 0) return update;
    const int64_t last = shape.table_rows - update->last_chunk_ * chunks.rows;
    for (const auto& [loop, rows] : {std::pair(&update->loop_, chunks.rows), std::pair(&update->last_, last)})
      if (!loop->Make(site, shape, rows, why)) return nullptr;
    return update;
  }

  std::string Run(const KernelArgs& args, const Chunk& chunk, float* gradient) override {
    Loop& loop = chunk.position == last_chunk_ ? last_ : loop_;
    const int64_t offset = chunk.first * row_bytes_;
    for (size_t i = 0; i < loop.inputs.size(); ++i)
      loop.inputs[i].data = args.inputs[i].data + (loop.moves[i] ? offset : 0);
    loop.inputs[rows_].data = DevicePointer(gradient);
    for (size_t i = 0; i < loop.outputs.size(); ++i) loop.outputs[i].data = args.outputs[i].data + offset;
    KernelArgs part = args;
    part.inputs = loop.inputs;
    part.outputs = loop.outputs;
    part.workspace = {};
    return loop.kernel->Run(part);
  }

 private:
  struct Loop {
    Node node;
    std::vector<TensorView> inputs, outputs;
    std::vector<bool> moves;  // of each input: whether it has the table's elements
    std::unique_ptr<Kernel> kernel;

    bool Make(const KernelSite& site, const RowUpdateShape& shape, int64_t rows, std::string* why) {
      TensorView part = site.inputs[shape.at.table];
      part.dims[0] = rows;
      part.elements = rows * shape.row_elements;
      part.bytes = part.elements * static_cast<int64_t>(sizeof(float));
      const size_t operands = site.node->program.inputs.size();
      if (operands != shape.at.index) {
        if (why) *why = "its program has another number of inputs";
        return false;
      }
      for (size_t i = 0; i < operands; ++i) {
        moves.push_back(i != shape.at.rows && site.inputs[i].dims == site.inputs[shape.at.table].dims);
        inputs.push_back(moves[i] || i == shape.at.rows ? part : site.inputs[i]);
      }
      outputs.assign(site.outputs.size(), part);
      node = *site.node;
      node.program.space[0] = Dim(rows);
      KernelSite chunk = site;
      chunk.node = &node;
      chunk.inputs = inputs;
      chunk.outputs = outputs;
      chunk.workspace_bytes = 0;
      KernelRegistry fused;
      RegisterFusedKernels(fused);
      kernel = fused.For("Fused").front().create(chunk, why);
      return kernel != nullptr;
    }
  };

  size_t rows_ = 0;
  int64_t row_bytes_ = 0, last_chunk_ = 0;
  Loop loop_, last_;
};

class QuantizedUpdate final : public ChunkUpdate {
 public:
  QuantizedUpdate(const QuantizedShape& shape, int64_t row_elements, int threads)
      : shape_(shape), row_elements_(row_elements), threads_(threads) {}

  // A chunk has whole blocks (RowChunksOf).
  std::string Run(const KernelArgs& args, const Chunk& chunk, float* gradient) override {
    const int64_t begin = chunk.first * row_elements_, end = begin + chunk.count * row_elements_;
    UpdateQuantizedBlocks(args, shape_, gradient, begin / kMomentBlock, CeilDiv(end, kMomentBlock), threads_);
    return "";
  }

 private:
  const QuantizedShape shape_;
  const int64_t row_elements_;
  const int threads_;
};

std::unique_ptr<Kernel> Create(const KernelSite& site, const RowUpdateShape& shape,
                               std::unique_ptr<ChunkUpdate> update, std::string* why) {
  if (!update) return nullptr;
  auto kernel = std::make_unique<UpdateRows>(shape, std::move(update), site.threads);
  if (kernel->WorkspaceBytes() > site.workspace_bytes)
    return Refuse(why, TooLittleWorkspace(kernel->WorkspaceBytes(), site.workspace_bytes));
  return kernel;
}

std::unique_ptr<Kernel> OfProgram(const KernelSite& site, std::string* why) {
  const auto shape = RowUpdateShapeOf(site, why);
  return shape ? Create(site, *shape, FusedUpdate::Create(site, *shape, why), why) : nullptr;
}

std::unique_ptr<Kernel> OfQuantizedAdam(const KernelSite& site, std::string* why) {
  const auto shape = RowUpdateShapeOf(site, why);
  if (!shape) return nullptr;
  const auto adam = QuantizedShapeOf("QuantizedAdam", site, why);
  if (!adam) return nullptr;
  if (!adam->coded) return Refuse(why, "its state is not codes and maxima");
  return Create(site, *shape, std::make_unique<QuantizedUpdate>(*adam, shape->row_elements, site.threads),
                why);
}

}  // namespace

void RegisterCpuUpdateRows(KernelRegistry& registry) {
  registry.Add("UpdateRows", {"cpu.update_rows", OfProgram});
  registry.Add("QuantizedAdamRows", {"cpu.quantized_adam_rows", OfQuantizedAdam});
}

}  // namespace act
