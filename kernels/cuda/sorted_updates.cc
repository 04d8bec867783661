#include "kernels/cuda/sorted_updates.h"

#include <bit>

#include "kernels/cuda/column_plan.h"
#include "kernels/cuda/workspace_pieces.h"
#include "kernels/site/dereference.h"
#include "runtime/plan/workspace.h"

namespace act::cuda {
namespace {

static_assert(kChunkRows == kCombinedByThread);

// Numbers in device code, or what has their size. Null if there is none.
const char* NumberType(DType dtype, Reduction reduction) {
  if (reduction == Reduction::kNone) {
    const int64_t size = ByteSize(dtype);
    return size == 8 ? "uint64_t" : size == 4 ? "uint32_t" : size == 2 ? "uint16_t" : "uint8_t";
  }
  switch (dtype) {
    case DType::kFloat32:
      return "float";
    case DType::kInt64:
      return "int64_t";
    case DType::kInt32:
      return "int32_t";
    default:
      return nullptr;
  }
}

const char* ReductionType(Reduction reduction) {
  switch (reduction) {
    case Reduction::kNone:
      return "act::cuda::KeepLast";
    case Reduction::kAdd:
      return "act::cuda::AddUp";
    case Reduction::kMul:
      return "act::cuda::MultiplyUp";
    case Reduction::kMin:
      return "act::cuda::KeepLeast";
    case Reduction::kMax:
      return "act::cuda::KeepLargest";
  }
  return "";
}

}  // namespace

SortedUpdates::SortedUpdates(const CudaContext& context, const std::string& lookup, const std::string& type,
                             const std::string& wide, const std::string& reduction)
    : find_(context, "find_targets", "ScatterParameters", "scatter", "FindTargets<" + lookup + ">"),
      combine_(context, "combine_chunks", "ScatterParameters", "scatter",
               "CombineChunks" + TemplateArguments(type, reduction)),
      join_(context, "join_chunks", "ScatterParameters", "scatter",
            "JoinChunks" + TemplateArguments(type, wide, reduction)),
      sort_(context) {}

std::optional<SortedUpdates> SortedUpdates::Of(const CudaContext& context, const ScatterParameters& shape,
                                               DType dtype, Reduction reduction, const std::string& lookup,
                                               std::string* why) {
  const char* type = NumberType(dtype, reduction);
  const int64_t length = shape.length.by;
  if (!type || DivideUp(shape.count, kChunkRows) * length >= kMaxCount) {
    *why = type ? "2^31 elements" : "combines f32, i64 and i32 only";
    return std::nullopt;
  }
  const bool adds_floats = dtype == DType::kFloat32 && reduction != Reduction::kNone;
  SortedUpdates updates(context, lookup, type, adds_floats ? "double" : type, ReductionType(reduction));
  updates.rows_ = shape.count;
  updates.length_ = length;
  updates.row_bytes_ = length * ByteSize(dtype);
  return updates;
}

int64_t SortedUpdates::WorkspaceBytes() const { return CudaScatterBytes(rows_, row_bytes_); }

Status SortedUpdates::Run(ScatterParameters p, const DeviceRange& workspace) const {
  WorkspacePieces pieces(workspace);
  const int64_t chunks = DivideUp(rows_, kChunkRows);
  p.items = static_cast<int32_t>(chunks * length_);
  SortScratch sort = TakeSortScratch(pieces, rows_);
  p.heads = pieces.Take(chunks * row_bytes_).as<void>();
  p.tails = pieces.Take(chunks * row_bytes_).as<void>();

  p.keys = sort.pairs.keys;
  p.positions = sort.pairs.values;
  Status status = find_.LaunchItems(rows_, p);
  if (status.empty()) status = sort_.Run(sort, rows_, static_cast<int>(std::bit_width(p.targets)));
  p.keys = sort.pairs.keys;
  p.positions = sort.pairs.values;
  if (status.empty()) status = combine_.LaunchItems(p.items, p);
  if (status.empty() && chunks > 1) status = join_.LaunchItems(p.items, p);
  return status;
}

}  // namespace act::cuda
