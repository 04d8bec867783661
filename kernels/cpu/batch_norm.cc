#include <algorithm>
#include <limits>

#include "kernels/cpu/special.h"
#include "kernels/cpu/vector_clones.h"
#include "kernels/site/batch_norm_shape.h"
#include "kernels/site/dereference.h"
#include "kernels/site/float_types.h"
#include "kernels/site/lambda_kernel.h"
#include "runtime/plan/workspace.h"

namespace act {
namespace {

// Floats of x that are read twice. 64 KiB stay in the second-level cache between the two reads.
constexpr int64_t kChunkFloats = 16 * 1024;

// Statistics of one part of the rows, in the workspace.
struct Part {
  double *mean, *m2;    // [C]: of the rows so far
  float *sum, *square;  // [C]: of the current chunk
  float *low, *high;    // [C]: the rows' range so far
  Part(std::byte* at, int64_t channels) {
    mean = reinterpret_cast<double*>(at);
    m2 = mean + channels;
    sum = reinterpret_cast<float*>(m2 + channels);
    square = sum + channels;
    low = square + channels;
    high = low + channels;
  }
};

// Widens [low, high] by the rows of x [rows, C], channel by channel.
template <class T>
ACT_IN_CLONES void WidenRangeOf(const T* x, int64_t rows, int64_t channels, float* low, float* high) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < channels; ++c) {
      const float v = ToFloat(x[r * channels + c]);
      low[c] = v < low[c] ? v : low[c];
      high[c] = v > high[c] ? v : high[c];
    }
}

// center[c] = mean of the rows of x [rows, C], in float.
template <class T>
ACT_IN_CLONES void ChunkMeanOf(const T* x, int64_t rows, int64_t channels, float* center) {
  for (int64_t c = 0; c < channels; ++c) center[c] = 0;
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    const T *a = x + r * channels, *b = a + channels, *d = b + channels, *e = d + channels;
    for (int64_t c = 0; c < channels; ++c)
      center[c] += (ToFloat(a[c]) + ToFloat(b[c])) + (ToFloat(d[c]) + ToFloat(e[c]));
  }
  for (; r < rows; ++r)
    for (int64_t c = 0; c < channels; ++c) center[c] += ToFloat(x[r * channels + c]);
  const float scale = 1.0f / static_cast<float>(rows);
  for (int64_t c = 0; c < channels; ++c) center[c] *= scale;
}

// Merges the chunk x [rows, C] into the mean and m2 of `before` rows (Chan, Golub, LeVeque 1979).
// `center` is near the chunk's mean. The sum of deviations corrects for the difference, so float is
// enough inside a chunk.
template <class T>
ACT_IN_CLONES void MergeChunkOf(const T* x, int64_t rows, int64_t channels, int64_t before,
                                const float* center, float* square, double* mean, double* m2) {
  constexpr int64_t kBlock = 64;
  const auto n = static_cast<double>(rows), total = static_cast<double>(before + rows);
  const double share = n / total, cross = static_cast<double>(before) * share;
  for (int64_t at = 0; at < channels; at += kBlock) {
    const int64_t count = std::min(kBlock, channels - at);
    float deviation[kBlock] = {};
    for (int64_t c = 0; c < count; ++c) square[at + c] = 0;
    for (int64_t r = 0; r < rows; ++r) {
      const T* row = x + r * channels + at;
      for (int64_t c = 0; c < count; ++c) {
        const float d = ToFloat(row[c]) - center[at + c];
        deviation[c] += d;
        square[at + c] += d * d;
      }
    }
    for (int64_t c = 0; c < count; ++c) {
      const double missed = deviation[c] / n;
      const double chunk_mean = center[at + c] + missed;
      const double chunk_m2 = square[at + c] - deviation[c] * missed;
      const double delta = chunk_mean - mean[at + c];
      mean[at + c] += delta * share;
      m2[at + c] += chunk_m2 + delta * delta * cross;
    }
  }
}

#define ACT_BATCH_NORM_LOOPS(T)                                                                            \
  ACT_VECTOR_CLONES void WidenRange(const T* x, int64_t rows, int64_t channels, float* low, float* high) { \
    WidenRangeOf(x, rows, channels, low, high);                                                            \
  }                                                                                                        \
  ACT_VECTOR_CLONES void ChunkMean(const T* x, int64_t rows, int64_t channels, float* center) {            \
    ChunkMeanOf(x, rows, channels, center);                                                                \
  }                                                                                                        \
  ACT_VECTOR_CLONES void MergeChunk(const T* x, int64_t rows, int64_t channels, int64_t before,            \
                                    const float* center, float* square, double* mean, double* m2) {        \
    MergeChunkOf(x, rows, channels, before, center, square, mean, m2);                                     \
  }
ACT_BATCH_NORM_LOOPS(float)
ACT_BATCH_NORM_LOOPS(BFloat16)
#undef ACT_BATCH_NORM_LOOPS

// How the rows are cut, and the merged statistics of the parts.
struct Cut {
  int64_t parts = 1, part_bytes = 0;
  int64_t chunk = 8;  // rows that are read twice
};

// finish(args, c, moments) takes the moments of each channel.
template <class T, class Finish>
void Compute(const BatchNormShape& s, const Cut& cut, const KernelArgs& args, const Finish& finish) {
  const T* x = args.inputs[0].as<T>();
  const auto begin = [&](int64_t part) { return s.rows * part / cut.parts; };
  const auto part_at = [&](int64_t p) {
    return Part(args.workspace.data.as<std::byte>() + p * cut.part_bytes, s.channels);
  };
#pragma omp parallel for schedule(static, 1) if (s.rows * s.channels > kParallelElements)
  for (int64_t p = 0; p < cut.parts; ++p) {
    const Part part = part_at(p);
    std::fill_n(part.mean, 2 * s.channels, 0.0);
    std::fill_n(part.low, s.channels, std::numeric_limits<float>::infinity());
    std::fill_n(part.high, s.channels, -std::numeric_limits<float>::infinity());
    for (int64_t r = begin(p); r < begin(p + 1); r += cut.chunk) {
      const int64_t rows = std::min(cut.chunk, begin(p + 1) - r);
      const T* from = x + r * s.channels;
      ChunkMean(from, rows, s.channels, part.sum);
      MergeChunk(from, rows, s.channels, r - begin(p), part.sum, part.square, part.mean, part.m2);
      if (s.wants_range) WidenRange(from, rows, s.channels, part.low, part.high);
    }
  }
  for (int64_t c = 0; c < s.channels; ++c) {
    BatchMoments all{.low = std::numeric_limits<float>::infinity(),
                     .high = -std::numeric_limits<float>::infinity()};
    for (int64_t p = 0; p < cut.parts; ++p) {
      const Part part = part_at(p);
      all = Merge(all, {begin(p + 1) - begin(p), part.mean[c], part.m2[c], part.low[c], part.high[c]});
    }
    finish(args, c, all);
  }
}

// A kernel of x that leaves the moments of each channel to `finish`.
template <class Finish>
std::unique_ptr<Kernel> OfEachChannel(const KernelSite& site, const BatchNormShape& shape, std::string* why,
                                      Finish finish) {
  const int64_t part_bytes = BatchNormPartBytes(shape.channels);
  const int64_t most = CpuTarget().RowSumParts(shape.channels);
  const int64_t parts = std::min(
      {most, std::max<int64_t>(shape.rows, 1), part_bytes > 0 ? site.workspace_bytes / part_bytes : most});
  if (parts < 1) return Refuse(why, "the workspace does not hold one part of the statistics");
  const int64_t chunk = std::clamp<int64_t>(kChunkFloats / std::max<int64_t>(shape.channels, 1), 8, 256);
  return MakeKernel(
      [s = shape, cut = Cut{parts, part_bytes, chunk}, finish](const KernelArgs& args) -> std::string {
        WithFloatType(args.inputs[0].dtype,
                      [&](auto type) { Compute<decltype(type)>(s, cut, args, finish); });
        return "";
      },
      parts* part_bytes);
}

std::unique_ptr<Kernel> BatchNormStats(const KernelSite& site, std::string* why) {
  const auto shape = BatchNormShapeOf(site, why);
  if (!shape) return nullptr;
  const auto results = BatchNormResultsOf(site, shape->channels, why);
  if (!results) return nullptr;
  return OfEachChannel(
      site, {shape->rows, shape->channels, results->wants_largest}, why,
      [r = *results](const KernelArgs& args, int64_t c, const BatchMoments& b) { r.Store(args, c, b); });
}

std::unique_ptr<Kernel> BatchNormMoments(const KernelSite& site, std::string* why) {
  const auto shape = BatchNormShapeOf(site, why);
  if (!shape || !HoldsMoments(site.outputs[0], shape->channels, why)) return nullptr;
  return OfEachChannel(site, *shape, why, AddMoments);
}

}  // namespace

void RegisterCpuBatchNorm(KernelRegistry& registry) {
  registry.Add("BatchNormStats", {"cpu.batch_norm_stats", BatchNormStats});
  registry.Add("BatchNormMoments", {"cpu.batch_norm_moments", BatchNormMoments});
}

}  // namespace act
