// TopK: few elements are selected one after the other; for many, rows are sorted in the workspace.
#include <algorithm>
#include <bit>

#include "kernels/cuda/column_plan.h"
#include "kernels/cuda/number_type.h"
#include "kernels/cuda/own_kernel.h"
#include "kernels/cuda/pair_sort.h"
#include "kernels/cuda/registry.h"
#include "kernels/cuda/source/topk_parameters.h"
#include "kernels/cuda/workspace_pieces.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/sequences_shape.h"

namespace act::cuda {
namespace {

using TopKKernel = OwnKernel<TopKParameters>;

std::unique_ptr<Kernel> Selecting(const CudaContext& context, const TopKParameters& shape, DType dtype,
                                  std::string* why) {
  // A row of more elements is worth a block.
  constexpr int64_t kWarp = 32, kElementsOfWarp = 1024;
  const int64_t team =
      shape.extent > kElementsOfWarp ? TopKKernel::kThreads : std::min(PowerOfTwoAbove(shape.extent), kWarp);
  if (shape.rows * team >= kMaxCount) return Refuse(why, "2^31 threads");
  const TopKKernel kernel(context, "select_topk", "TopKParameters", "topk",
                          "SelectTopK" + TemplateArguments(NumberType(dtype), team));
  return MakeKernel(
      [shape, team, kernel](const KernelArgs& args) -> std::string {
        TopKParameters p = shape;
        p.x = args.inputs[0].as<void>();
        p.index = args.outputs[0].as<int64_t>();
        return kernel.LaunchItems(p.rows * team, p);
      },
      0, "selects");
}

// A round of the sort: keys are fetched, and pairs sorted by their lowest bits.
struct Round {
  TopKKernel fetch;
  int bits = 0;
};

std::vector<Round> RoundsOf(const CudaContext& context, const TopKParameters& shape, DType dtype) {
  std::vector<Round> rounds;
  const auto add = [&](const std::string& word, int bits) {
    rounds.push_back({{context, "fetch_keys", "TopKParameters", "topk",
                       "FetchKeys" + TemplateArguments(NumberType(dtype), "act::cuda::KeyWord::" + word,
                                                       rounds.empty() ? "true" : "false")},
                      bits});
  };
  const int bits = static_cast<int>(8 * ByteSize(dtype));
  add("kLow", std::min(bits, 32));
  if (bits > 32) add("kHigh", bits - 32);
  if (shape.rows > 1) add("kRow", static_cast<int>(std::bit_width(static_cast<uint32_t>(shape.rows - 1))));
  return rounds;
}

std::unique_ptr<Kernel> Sorting(const CudaContext& context, const TopKParameters& shape, DType dtype) {
  const TopKKernel take(context, "take_sorted", "TopKParameters", "topk", "TakeSorted");
  const int64_t elements = int64_t{shape.rows} * shape.extent;
  return MakeKernel(
      [shape, elements, take, rounds = RoundsOf(context, shape, dtype),
       sort = PairSort(context)](const KernelArgs& args) -> std::string {
        WorkspacePieces pieces(args.workspace);
        SortScratch scratch = TakeSortScratch(pieces, elements);
        TopKParameters p = shape;
        p.x = args.inputs[0].as<void>();
        p.index = args.outputs[0].as<int64_t>();
        p.items = static_cast<int32_t>(elements);
        Status status;
        for (const Round& round : rounds) {
          p.keys = scratch.pairs.keys;
          p.values = scratch.pairs.values;
          status = round.fetch.LaunchItems(p.items, p);
          if (status.empty()) status = sort.Run(scratch, elements, round.bits);
          if (!status.empty()) return status;
        }
        p.values = scratch.pairs.values;
        p.items = p.rows * p.k;
        return take.LaunchItems(p.items, p);
      },
      CudaSortBytes(elements), "sorts");
}

std::unique_ptr<Kernel> TopK(const CudaContext& context, const KernelSite& site, std::string* why) {
  const auto s = TopKShapeOf(site, why);
  if (!s) return nullptr;
  if (s->rows == 0 || s->k == 0) return MakeKernel([](const KernelArgs&) -> std::string { return ""; });
  if (s->rows >= kMaxCount || s->extent >= kMaxCount) return Refuse(why, "2^31 rows, or elements of a row");
  TopKParameters shape;
  shape.rows = static_cast<int32_t>(s->rows);
  shape.extent = static_cast<int32_t>(s->extent);
  shape.k = static_cast<int32_t>(s->k);
  shape.largest = s->largest;
  shape.last = s->last;
  shape.row = DivisorOf(s->extent);
  shape.selected = DivisorOf(s->k);
  const DType dtype = site.inputs[0].dtype;
  const int64_t elements = s->rows * s->extent;
  const bool sorts = CudaTopKSorts(s->extent, s->k) && elements < kMaxCount &&
                     CudaSortBytes(elements) <= site.workspace_bytes;
  if (sorts) return Sorting(context, shape, dtype);
  return Selecting(context, shape, dtype, why);
}

}  // namespace

void RegisterCudaTopK(KernelRegistry& registry, const CudaContext& context) {
  registry.Add("TopK", {"cuda.topk", [&context](const KernelSite& site, std::string* why) {
                          return TopK(context, site, why);
                        }});
}

}  // namespace act::cuda
