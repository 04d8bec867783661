// Updates of a table of which rows have a gradient. The gradient of a chunk of the table's rows is made in the
// scratch space, and the kernel of the whole update runs on that chunk. Rows are sorted by chunk first, in their
// order, so each element receives its terms as in a scatter, and the bits are those of the whole update.
//
// A sparse update (compiler/ops/update.h) leaves rows without a gradient alone. Where few of a chunk's rows have one,
// it is made and applied for each of these rows, so the time is that of the rows that were looked up.
#include "kernels/cpu/update_rows.h"

#include <omp.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/cpu/chunk_update.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/quantized_shape.h"
#include "kernels/site/row_update_shape.h"

namespace act {
namespace {

// Rows first .. first + count - 1 of the table.
struct Chunk {
  int64_t first, count;
};

class UpdateRows final : public Kernel {
 public:
  // Makes the update of so many rows on so many threads.
  using MakeUpdate = std::function<std::unique_ptr<ChunkUpdate>(int64_t rows, int threads)>;

  UpdateRows(const RowUpdateShape& shape, bool sparse, int threads)
      : shape_(shape),
        sparse_(sparse),
        chunks_(RowChunksOf(shape.table_rows, shape.row_elements)),
        scratch_(RowUpdateScratchOf(shape.table_rows, shape.row_elements, shape.indices)),
        threads_(std::max(threads, 1)) {}

  // False if there is no update.
  bool Make(const MakeUpdate& make) {
    if (chunks_.chunks == 0) return true;
    update_ = make(chunks_.rows, threads_);
    last_ = make(LastCount(), threads_);
    // Each thread's row lies in the scratch space of a chunk.
    const int64_t threads = sparse_ ? std::min<int64_t>(threads_, chunks_.rows) : 0;
    for (int64_t t = 0; t < threads; ++t) of_row_.push_back(make(1, 1));
    return update_ && last_ &&
           std::ranges::all_of(of_row_, [](const auto& update) { return update != nullptr; });
  }

  std::string Run(const KernelArgs& args) override {
    if (std::string wrong = shape_.lookup.CheckIndices(args.inputs[shape_.at.index]); !wrong.empty())
      return wrong;
    if (args.inputs[shape_.at.table].elements == 0) return "";
    auto* gradient = args.workspace.data.as<float>();
    auto* start = (args.workspace.data + scratch_.start_offset).as<int64_t>();
    auto* order = (args.workspace.data + scratch_.order_offset).as<int64_t>();
    Sort(args, start, order);
    const bool keeps_rows = sparse_ && args.state->update.hyper.weight_decay == 0;
    const auto rows_of = [&](int64_t c) { return std::span(order + start[c], order + start[c + 1]); };
    if (keeps_rows) {
      if (std::string wrong = UpdateFewRows(args, rows_of, gradient); !wrong.empty()) return wrong;
    }
    for (int64_t c = 0; c < chunks_.chunks; ++c) {
      const Chunk chunk = ChunkAt(c);
      if (keeps_rows && AreFew(rows_of(c), chunk)) continue;
      AddRows(args, chunk, rows_of(c), gradient);
      ChunkUpdate& update = c + 1 < chunks_.chunks ? *update_ : *last_;
      if (std::string wrong = update.Run(args, chunk.first, gradient); !wrong.empty()) return wrong;
    }
    return "";
  }

  int64_t WorkspaceBytes() const override { return scratch_.bytes; }
  std::string Describe() const override {
    return std::to_string(chunks_.chunks) + " chunks of " + std::to_string(chunks_.rows) + " rows" +
           (sparse_ ? ", or few rows alone" : "");
  }

 private:
  int64_t LastCount() const { return shape_.table_rows - (chunks_.chunks - 1) * chunks_.rows; }
  Chunk ChunkAt(int64_t c) const {
    return {c * chunks_.rows, c + 1 < chunks_.chunks ? chunks_.rows : LastCount()};
  }

  // Whether updating these rows alone takes less time than updating the chunk.
  bool AreFew(std::span<const int64_t> order, const Chunk& chunk) const {
    constexpr int64_t kElementsOfCall = 2048;  // that a loop over a chunk updates while one over a row begins
    return static_cast<int64_t>(order.size()) * (shape_.row_elements + kElementsOfCall) <=
           chunk.count * shape_.row_elements;
  }

  // Chunks are independent, and threads take one after the other. `rows_of`: the rows of a chunk.
  template <class F>
  std::string UpdateFewRows(const KernelArgs& args, const F& rows_of, float* gradient) {
    std::string fault;
#pragma omp parallel for num_threads(static_cast <int>(of_row_.size())) \
    schedule(dynamic, 1) if (of_row_.size() > 1)
    for (int64_t c = 0; c < chunks_.chunks; ++c) {
      const std::span<int64_t> order = rows_of(c);
      if (order.empty() || !AreFew(order, ChunkAt(c))) continue;
      const auto thread = static_cast<size_t>(omp_get_thread_num());
      float* row = gradient + omp_get_thread_num() * shape_.row_elements;
      std::string wrong = UpdateEachRow(args, order, *of_row_[thread], row);
#pragma omp critical(act_update_few_rows)
      if (fault.empty()) fault = std::move(wrong);
    }
    return fault;
  }

  // Equal rows come to lie side by side, in their order.
  std::string UpdateEachRow(const KernelArgs& args, std::span<int64_t> order, ChunkUpdate& update,
                            float* gradient) const {
    const TensorView& index = args.inputs[shape_.at.index];
    const float* rows = args.inputs[shape_.at.rows].as<float>();
    const auto place = [&](int64_t i) { return std::pair(IndexAt(index, i, shape_.table_rows), i); };
    std::ranges::sort(order, {}, place);
    for (size_t i = 0; i < order.size();) {
      const int64_t row = place(order[i]).first;
      std::fill_n(gradient, shape_.row_elements, 0.0f);
      for (; i < order.size() && place(order[i]).first == row; ++i) {
        const float* from = rows + order[i] * shape_.row_elements;
        for (int64_t k = 0; k < shape_.row_elements; ++k) gradient[k] += from[k];
      }
      if (std::string wrong = update.Run(args, row, gradient); !wrong.empty()) return wrong;
    }
    return "";
  }

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
  const bool sparse_;
  const RowChunks chunks_;
  const RowUpdateScratch scratch_;
  const int threads_;
  std::unique_ptr<ChunkUpdate> update_, last_;        // of a chunk, of the last one
  std::vector<std::unique_ptr<ChunkUpdate>> of_row_;  // for each thread
};

std::unique_ptr<Kernel> Create(const KernelSite& site, const RowUpdateShape& shape, bool sparse,
                               const UpdateRows::MakeUpdate& make, std::string* why) {
  auto kernel = std::make_unique<UpdateRows>(shape, sparse, site.threads);
  if (!kernel->Make(make)) return nullptr;
  if (kernel->WorkspaceBytes() > site.workspace_bytes)
    return Refuse(why, TooLittleWorkspace(kernel->WorkspaceBytes(), site.workspace_bytes));
  return kernel;
}

std::unique_ptr<Kernel> OfProgram(const KernelSite& site, std::string* why) {
  const auto shape = RowUpdateShapeOf(site, why);
  if (!shape) return nullptr;
  const auto make = [&](int64_t rows, int threads) {
    return ProgramUpdate(site, *shape, rows, threads, why);
  };
  return Create(site, *shape, site.node->attrs.Int("sparse") != 0, make, why);
}

std::unique_ptr<Kernel> OfQuantized(std::string_view op, const KernelSite& site, std::string* why) {
  const auto shape = RowUpdateShapeOf(site, why);
  if (!shape) return nullptr;
  const auto make = [&](int64_t rows, int) { return QuantizedUpdate(op, site, *shape, rows, why); };
  return Create(site, *shape, /*sparse=*/false, make, why);
}

}  // namespace

void RegisterCpuUpdateRows(KernelRegistry& registry) {
  registry.Add("UpdateRows", {"cpu.update_rows", OfProgram});
  for (const QuantizedRule& rule : QuantizedRules()) {
    if (rule.makes_direction) continue;
    const auto create = [op = rule.op](const KernelSite& site, std::string* why) {
      return OfQuantized(op, site, why);
    };
    registry.Add(rule.RowsOp(), {"cpu." + rule.RowsName(), create});
  }
}

}  // namespace act
