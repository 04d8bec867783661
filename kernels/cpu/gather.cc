// Rows that are looked up by data. Several updates of a scatter may go to one row, so the work is
// cut where this cannot happen: at outer axes, at columns, or at the rows that are written. Each
// element receives its updates in order, wherever the work is cut.
#include <cstring>
#include <optional>

#include "kernels/cpu/blocks.h"
#include "kernels/cpu/coded_numbers.h"
#include "kernels/cpu/special.h"
#include "kernels/site/coded_operand.h"
#include "kernels/site/dereference.h"
#include "kernels/site/gather_shape.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/loss_shape.h"

namespace act {
namespace {

// Calls f for rows first..last-1 with three arguments: the row, its place in the large tensor at
// index 0, and the place of its index.
template <class F>
void ForRows(const LookupShape& s, int64_t first, int64_t last, F f) {
  const bool one = s.whole.dims.empty();
  const int64_t inner = one ? 1 : s.whole.dims.back();
  const int64_t whole_stride = one ? 0 : s.whole.strides.back(),
                index_stride = one ? 0 : s.index.strides.back();
  for (int64_t r = first; r < last;) {
    int64_t whole = s.whole.At(r), index = s.index.At(r);
    for (const int64_t end = std::min(last, r - r % inner + inner); r < end; ++r) {
      f(r, whole, index);
      whole += whole_stride;
      index += index_stride;
    }
  }
}

template <class Index>
bool AllInside(const TensorView& index, int64_t extent) {
  int64_t outside = 0;
#pragma omp parallel for schedule(static) reduction(+ : outside) if (index.elements > kParallelElements)
  for (int64_t i = 0; i < index.elements; ++i) {
    const int64_t at = index.as<Index>()[i];
    outside += at < -extent || at >= extent;
  }
  return outside == 0;
}

std::string CheckIndices(const LookupShape& s, const TensorView& index) {
  const bool inside = index.dtype == DType::kInt64 ? AllInside<int64_t>(index, s.extent)
                                                   : AllInside<int32_t>(index, s.extent);
  return inside ? "" : s.CheckIndices(index);
}

void CopyRow(char* to, const char* from, int64_t bytes) {
  if (bytes == 2)
    std::memcpy(to, from, 2);
  else if (bytes == 4)
    std::memcpy(to, from, 4);
  else if (bytes == 8)
    std::memcpy(to, from, 8);
  else
    std::memcpy(to, from, static_cast<size_t>(bytes));
}

// code: of the table, if it is one.
void GatherRows(const LookupShape& s, const std::optional<CodedNumbers>& code, const KernelArgs& args,
                int64_t first, int64_t last) {
  const TensorView& index = args.inputs[1];
  const TensorView* live = OptionalInput(args.inputs, 2);
  const int64_t size = ByteSize(args.outputs[0].dtype), bytes = s.length * size;
  const char* x = args.inputs[0].as<char>();
  char* y = args.outputs[0].as<char>();
  ForRows(s, first, last, [&](int64_t r, int64_t whole, int64_t at) {
    if (live && !IsLive(*live, r / s.live_rows % s.live_extent))
      std::memset(y + r * bytes, 0, static_cast<size_t>(bytes));
    else if (code)
      code->Read(x, whole + s.step * IndexAt(index, at, s.extent), s.length,
                 args.outputs[0].as<float>() + r * s.length);
    else
      CopyRow(y + r * bytes, x + (whole + s.step * IndexAt(index, at, s.extent)) * size, bytes);
  });
}

std::unique_ptr<Kernel> Gather(const KernelSite& site, std::string* why) {
  if (site.inputs.size() < 2 || site.outputs.empty()) return Refuse(why, "needs x, index and a result");
  const auto shape = LookupShapeOf(site.node->attrs, NumbersOf(site.inputs[0]), site.outputs[0],
                                   site.inputs[1], OptionalInput(site.inputs, 2), why);
  if (!shape) return nullptr;
  std::optional<CodedNumbers> code;
  if (site.inputs[0].coded) code.emplace(*site.inputs[0].coded);
  return MakeKernel([s = *shape, code, parts = int64_t{site.threads}](const KernelArgs& args) -> std::string {
    if (args.outputs[0].elements == 0) return "";
    if (std::string wrong = CheckIndices(s, args.inputs[1]); !wrong.empty()) return wrong;
    const int64_t rows = s.Rows();
#pragma omp parallel for schedule(static) if (rows * s.length > kParallelElements)
    for (int64_t p = 0; p < parts; ++p) GatherRows(s, code, args, rows * p / parts, rows * (p + 1) / parts);
    return "";
  });
}

// One thread's share of a scatter.
struct Share {
  int64_t first_row, last_row, first_column, last_column, first_target, last_target;
};

template <Reduction reduction>
void ScatterRows(const LookupShape& s, const KernelArgs& args, const Share& share) {
  const TensorView& index = args.inputs[1];
  const TensorView* live = OptionalInput(args.inputs, 3);
  const int64_t columns = share.last_column - share.first_column, size = ByteSize(args.outputs[0].dtype);
  ForRows(s, share.first_row, share.last_row, [&](int64_t r, int64_t whole, int64_t at) {
    const int64_t target = IndexAt(index, at, s.extent);
    if (target < share.first_target || target >= share.last_target) return;
    if (live && !IsLive(*live, r / s.live_rows % s.live_extent)) return;
    const int64_t to = whole + s.step * target + share.first_column;
    const int64_t from = r * s.length + share.first_column;
    if constexpr (reduction == Reduction::kNone) {
      CopyRow(args.outputs[0].as<char>() + to * size, args.inputs[0].as<char>() + from * size,
              columns * size);
    } else {
      float* y = args.outputs[0].as<float>() + to;
      const float* update = args.inputs[0].as<float>() + from;
      for (int64_t i = 0; i < columns; ++i) y[i] = Reduce(reduction, y[i], update[i]);
    }
  });
}

void ScatterShare(const LookupShape& s, const KernelArgs& args, Reduction reduction, const Share& share) {
  switch (reduction) {
    case Reduction::kNone:
      return ScatterRows<Reduction::kNone>(s, args, share);
    case Reduction::kAdd:
      return ScatterRows<Reduction::kAdd>(s, args, share);
    case Reduction::kMul:
      return ScatterRows<Reduction::kMul>(s, args, share);
    case Reduction::kMin:
      return ScatterRows<Reduction::kMin>(s, args, share);
    case Reduction::kMax:
      return ScatterRows<Reduction::kMax>(s, args, share);
  }
}

// Cuts the work into shares that write different elements.
std::vector<Share> Shares(const LookupShape& s, const KernelSite& site) {
  constexpr int64_t kColumns = 64;  // four cache lines, so that threads share no line
  const int64_t threads = std::max(site.threads, 1), rows = s.Rows();
  int64_t outer = 1;
  for (int64_t d = 0; d < site.node->attrs.Int("axis"); ++d)
    outer *= site.inputs[0].dims[static_cast<size_t>(d)];
  std::vector<Share> shares;
  for (int64_t p = 0; p < threads; ++p) {
    const auto cut = [p, threads](int64_t count, int64_t unit) {
      const int64_t units = (count + unit - 1) / unit;
      return std::pair(units * p / threads * unit, std::min(count, units * (p + 1) / threads * unit));
    };
    Share share{0, rows, 0, s.length, 0, s.extent};
    if (outer >= threads)
      std::tie(share.first_row, share.last_row) = cut(rows, rows / outer);
    else if (s.length >= kColumns * threads)
      std::tie(share.first_column, share.last_column) = cut(s.length, kColumns);
    else
      std::tie(share.first_target, share.last_target) = cut(s.extent, 1);
    shares.push_back(share);
  }
  return shares;
}

std::unique_ptr<Kernel> Scatter(const KernelSite& site, std::string* why) {
  const auto shape = ScatterShapeOf(site, why);
  if (!shape) return nullptr;
  if (shape->reduction != Reduction::kNone && site.outputs[0].dtype != DType::kFloat32)
    return Refuse(why, "combines float32 only");
  std::vector<Share> shares;
  if (site.inputs[0].elements > 0) shares = Shares(shape->lookup, site);
  return MakeKernel([s = shape->lookup, reduction = shape->reduction,
                     shares = std::move(shares)](const KernelArgs& args) -> std::string {
    if (std::string wrong = CheckIndices(s, args.inputs[1]); !wrong.empty()) return wrong;
    const TensorView* x = OptionalInput(args.inputs, 2);
    if (!x)
      Clear(args.outputs[0]);
    else if (x->data != args.outputs[0].data)
      Copy(args.outputs[0], *x);
    const auto count = static_cast<int64_t>(shares.size());
#pragma omp parallel for schedule(static, 1) if (args.inputs[0].elements > kParallelElements)
    for (int64_t p = 0; p < count; ++p) ScatterShare(s, args, reduction, shares[static_cast<size_t>(p)]);
    return "";
  });
}

}  // namespace

void RegisterCpuGather(KernelRegistry& registry) {
  registry.Add("Gather", {"cpu.gather", Gather});
  registry.Add("Scatter", {"cpu.scatter", Scatter});
}

}  // namespace act
