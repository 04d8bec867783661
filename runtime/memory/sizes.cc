#include "runtime/memory/sizes.h"

#include <algorithm>

#include "runtime/plan/sample_loops.h"

namespace act {
namespace {

int64_t BytesAt(const TensorType& type, int64_t samples) {
  int64_t elements = 1;
  for (const Dim& dim : type.dims) elements = SaturatingMul(elements, dim.At(samples));
  return std::max<int64_t>(0, SaturatingMul(elements, ByteSize(type.dtype)));
}

}  // namespace

int64_t StorageBytes(const Graph& graph, int32_t loop, const TensorType& type, int64_t batch,
                     int64_t alignment) {
  const int64_t samples = SamplesAtATime(graph, loop, batch);
  const bool in_tokens = loop >= 0 && graph.loops[static_cast<size_t>(loop)].tokens > 1;
  return RoundUp(in_tokens ? BytesAt(TypeIn(graph, loop, type), samples) : BytesAt(type, samples), alignment);
}

int64_t WorkspaceBytes(const Graph& graph, const Node& node, int32_t loop, int64_t batch, TargetKind target) {
  const int64_t alignment = AlignmentOf(target), samples = SamplesAtATime(graph, loop, batch);
  int64_t bytes = RoundUp(node.workspace_bytes[target].At(samples), alignment);
  if (loop < 0 || !HasTiles(graph.loops[static_cast<size_t>(loop)], batch)) return bytes;
  for (const ValueId id : node.outputs)
    if (IsSumOfTiles(graph, node, id))
      bytes = SaturatingAdd(bytes, RoundUp(BytesAt(graph.value(id).type, samples), alignment));
  return bytes;
}

}  // namespace act
