// The steps of a fused loop that move a tile's numbers between registers and tensors: reads, stores and
// partial sums.
#include <algorithm>

#include "kernels/cpu/bfloat16_tile.h"
#include "kernels/cpu/fused_run.h"
#include "kernels/cpu/read_ahead.h"
#include "kernels/site/dereference.h"
#include "kernels/site/element_types.h"

namespace act {
namespace {

double* PartialSums(const KernelArgs& args, const SumOutput& sum, int64_t part) {
  return (args.workspace.data + sum.workspace).as<double>() + part * sum.columns;
}

// Elements that follow each other in memory, as floats.
void ReadRun(DType dtype, const std::byte* from, int64_t count, float* x) {
  if (dtype == DType::kBFloat16)
    return WidenTile(static_cast<size_t>(count), reinterpret_cast<const BFloat16*>(from), x, kBFloat16Ahead);
  ReadAsFloat(dtype, from, 1, count, x);
}

}  // namespace

// Elements offset .. offset + count - 1 of an operand broadcast to the space, as floats.
void TileWalker::Read(int32_t input, int64_t offset, int64_t count, float* x) const {
  const ReadPattern& pattern = loop_.reads[static_cast<size_t>(input)];
  const TensorView& view = args_.inputs[static_cast<size_t>(input)];
  const int64_t size = ByteSize(view.dtype);
  const size_t axes = pattern.extents.size();
  const int64_t run = axes == 0 ? 1 : pattern.extents.back();
  const int64_t stride = axes == 0 ? 0 : pattern.strides.back();
  if (axes == 1 && stride == 1)
    return ReadRun(view.dtype, view.as<const std::byte>() + offset * size, count, x);
  // Reads runs along the innermost axis. The outer coordinates take one division per run.
  while (count > 0) {
    const int64_t inner = offset % run;
    int64_t rest = offset / run, from = inner * stride;
    for (size_t axis = axes; axis-- > 1; rest /= pattern.extents[axis - 1])
      from += rest % pattern.extents[axis - 1] * pattern.strides[axis - 1];
    const int64_t n = std::min(count, run - inner);
    const std::byte* p = view.as<const std::byte>() + from * size;
    if (stride == 0) {
      float value;
      ReadAsFloat(view.dtype, p, 1, 1, &value);
      std::fill_n(x, n, value);
    } else if (stride == 1) {
      ReadRun(view.dtype, p, n, x);
    } else {
      ReadAsFloat(view.dtype, p, stride, n, x);
    }
    offset += n;
    count -= n;
    x += n;
  }
}

void TileWalker::ReadRow(int32_t input, int64_t first_row, int64_t rows, float* x) const {
  const TensorView& view = args_.inputs[static_cast<size_t>(input)];
  ReadAsFloat(view.dtype, view.as<const std::byte>() + first_row * ByteSize(view.dtype), 1, rows, x);
}

void TileWalker::StoreRow(const Step& step, int64_t first_row, int64_t rows) const {
  const Place place = loop_.registers[static_cast<size_t>(step.reg)].place;
  const int64_t stride = place == Place::kRow ? 1 : place == Place::kScalar ? 0 : loop_.shape.row;
  float* to = args_.outputs[static_cast<size_t>(step.tensor)].as<float>() + first_row;
  for (int64_t r = 0; r < rows; ++r) to[r] = at_[step.reg][r * stride];
}

void TileWalker::Store(const Step& step, int64_t offset, int64_t count) const {
  if (made_in_[step.reg] == step.tensor) return;
  const TensorView& view = args_.outputs[static_cast<size_t>(step.tensor)];
  const int64_t size = ByteSize(view.dtype);
  std::byte* to = view.as<std::byte>() + offset * size;
  const float* x = at_[step.reg];
  if (static_cast<const void*>(x) == to) return;
  if (view.dtype == DType::kBFloat16)
    RoundTile(static_cast<size_t>(count), x, reinterpret_cast<BFloat16*>(to), kBFloat16Ahead);
  else
    WriteFromFloat(view.dtype, x, count, to);
}

void TileWalker::AddToSum(const Step& step, int64_t offset, int64_t count) {
  const auto is_it = [&step](const SumOutput& s) { return s.output == step.tensor; };
  const SumOutput& sum = *std::find_if(loop_.sums.begin(), loop_.sums.end(), is_it);
  const int64_t phase = offset % sum.columns;
  const float* x = at_[step.reg];
  const float* times = step.a < 0 ? nullptr : at_[step.a];
  if (sum.scratch >= 0) {
    float* to = scratch_ + sum.scratch + phase;
    return times ? AddProductTile(static_cast<size_t>(count), x, times, to)
                 : AddTile(static_cast<size_t>(count), x, to);
  }
  double* total = PartialSums(args_, sum, part_);
  for (int64_t i = 0, c = phase; i < count; ++i, c = c + 1 == sum.columns ? 0 : c + 1)
    total[c] += static_cast<double>(times ? x[i] * times[i] : x[i]);
}

void TileWalker::ClearSums(int64_t part) {
  part_ = part;
  for (const SumOutput& sum : loop_.sums) {
    std::fill_n(PartialSums(args_, sum, part), sum.columns, 0.0);
    if (sum.scratch >= 0) std::fill_n(scratch_ + sum.scratch, sum.columns + loop_.tail, 0.0f);
  }
}

void TileWalker::FlushSums() {
  for (const SumOutput& sum : loop_.sums) {
    if (sum.scratch < 0) continue;
    double* total = PartialSums(args_, sum, part_);
    const int64_t length = sum.columns + loop_.tail;
    for (int64_t i = 0; i < length; i += sum.columns)
      FlushTile(static_cast<size_t>(std::min(sum.columns, length - i)), scratch_ + sum.scratch + i, total);
  }
}

void FinishSums(const FusedLoop& loop, const KernelArgs& args) {
  for (const SumOutput& sum : loop.sums) {
    float* to = args.outputs[static_cast<size_t>(sum.output)].as<float>();
    for (int64_t c = 0; c < sum.columns; ++c) {
      double total = 0;
      for (int64_t part = 0; part < loop.parts; ++part) total += PartialSums(args, sum, part)[c];
      to[c] = static_cast<float>(total);
    }
  }
}

}  // namespace act
