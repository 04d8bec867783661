#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <utility>

#include "plan_generated.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/codec/codec_row.h"
#include "runtime/plan/plan_check.h"
#include "runtime/plan/plan_file.h"
#include "runtime/plan/plan_io.h"

namespace act {
namespace {

using flatbuffers::Offset;

static_assert(std::endian::native == std::endian::little, "the header is written as it lies in memory");

fb::Dim DimToFb(const Dim& dim) { return {dim.fixed, dim.per_batch, dim.per_batch2}; }
std::vector<fb::Dim> DimsToFb(const Dims& dims) {
  std::vector<fb::Dim> result;
  for (const Dim& dim : dims) result.push_back(DimToFb(dim));
  return result;
}

class Writer {
 public:
  void Build(const Plan& plan);
  llvm::Error Save(const std::string& path) const;

 private:
  std::optional<fb::Blob> AddBlob(const HostTensor& tensor);
  int32_t PlaceOf(const Codec& codec);
  std::vector<Offset<fb::Attribute>> Write(const Attributes& attributes);
  Offset<fb::Attribute> Write(const std::string& name, const Attribute& attribute);
  Offset<fb::Program> Write(const Program& program);
  Offset<fb::Node> Write(const Node& node);
  Offset<fb::StepGraph> Write(const StepGraph& step);
  Offset<fb::SavedEdge> Write(const SavedEdge& edge);
  Offset<fb::Prepared> Write(const Prepared& prepared);

  flatbuffers::FlatBufferBuilder builder_;
  std::vector<Codec> codecs_;      // that programs refer to
  std::vector<HostTensor> blobs_;  // in file order
  int64_t blob_bytes_ = 0;         // padding included
  // train and eval share their weights
  std::map<std::pair<const std::byte*, int64_t>, fb::Blob> blob_of_;
};

int32_t Writer::PlaceOf(const Codec& codec) {
  if (codec.kind == CodecKind::kNone) return -1;
  const auto at = std::find(codecs_.begin(), codecs_.end(), codec);
  const auto place = static_cast<int32_t>(at - codecs_.begin());
  if (at == codecs_.end()) codecs_.push_back(codec);
  return place;
}

std::optional<fb::Blob> Writer::AddBlob(const HostTensor& tensor) {
  if (!tensor.data) return std::nullopt;
  const auto [it, is_new] = blob_of_.try_emplace(
      {tensor.data, tensor.bytes}, static_cast<uint64_t>(blob_bytes_), static_cast<uint64_t>(tensor.bytes));
  if (is_new) {
    blobs_.push_back(tensor);
    blob_bytes_ += plan_file::AlignUp(tensor.bytes);
  }
  return it->second;
}

Offset<fb::Attribute> Writer::Write(const std::string& name, const Attribute& attribute) {
  std::vector<int64_t> ints;
  std::vector<double> floats;
  std::string text;
  fb::AttributeKind kind = fb::AttributeKind_Int;
  if (const auto* i = std::get_if<int64_t>(&attribute)) {
    ints = {*i};
  } else if (const auto* f = std::get_if<double>(&attribute)) {
    kind = fb::AttributeKind_Float, floats = {*f};
  } else if (const auto* s = std::get_if<std::string>(&attribute)) {
    kind = fb::AttributeKind_String, text = *s;
  } else if (const auto* is = std::get_if<std::vector<int64_t>>(&attribute)) {
    kind = fb::AttributeKind_Ints, ints = *is;
  } else {
    kind = fb::AttributeKind_Floats, floats = std::get<std::vector<double>>(attribute);
  }
  return fb::CreateAttributeDirect(builder_, name.c_str(), kind, ints.empty() ? nullptr : &ints,
                                   floats.empty() ? nullptr : &floats, text.empty() ? nullptr : text.c_str());
}

std::vector<Offset<fb::Attribute>> Writer::Write(const Attributes& attributes) {
  std::vector<Offset<fb::Attribute>> result;
  for (const auto& [name, attribute] : attributes.map()) result.push_back(Write(name, attribute));
  return result;
}

Offset<fb::Program> Writer::Write(const Program& program) {
  if (program.Empty()) return 0;
  const std::vector<fb::Dim> space = DimsToFb(program.space);
  std::vector<fb::ProgramInput> inputs;
  for (const ProgramInput& input : program.inputs)
    inputs.emplace_back(PlaceOf(input.codec), input.stream, input.mask);
  std::vector<fb::ProgramConstant> constants;
  for (const ProgramConstant& c : program.constants) constants.emplace_back(c.value, DimToFb(c.extent));
  std::vector<fb::Instr> instrs;
  for (const Instr& i : program.instrs)
    instrs.emplace_back(static_cast<uint8_t>(i.op), i.a, i.b, i.c, i.parameter, i.stream);
  std::vector<fb::ProgramOutput> outputs;
  for (const ProgramOutput& o : program.outputs)
    outputs.emplace_back(static_cast<uint8_t>(o.kind), o.reg, PlaceOf(o.codec), o.stream);
  return fb::CreateProgramDirect(builder_, &space, &inputs, &constants, &instrs, &outputs, program.row_axes);
}

Offset<fb::Node> Writer::Write(const Node& node) {
  const std::vector<Offset<fb::Attribute>> attrs = Write(node.attrs);
  const Offset<fb::Program> program = Write(node.program);
  std::vector<fb::Workspace> workspaces;
  for (const CappedDim& bound : node.workspace_bytes.of)
    workspaces.emplace_back(DimToFb(bound.size), bound.most);
  return fb::CreateNodeDirect(builder_, node.op.c_str(), node.name.c_str(), &node.inputs, &node.outputs,
                              &attrs, static_cast<uint8_t>(node.phase), &node.mutates, program, &workspaces);
}

Offset<fb::StepGraph> Writer::Write(const StepGraph& step) {
  std::vector<Offset<fb::Value>> values;
  for (size_t i = 0; i < step.graph.values.size(); ++i) {
    const Value& value = step.graph.values[i];
    const std::vector<fb::Dim> dims = DimsToFb(value.type.dims);
    const std::optional<fb::Blob> data = AddBlob(value.data);
    const std::vector<fb::Dim> coded =
        value.coded ? DimsToFb(value.coded->type.dims) : std::vector<fb::Dim>();
    values.push_back(fb::CreateValueDirect(
        builder_, value.name.c_str(), static_cast<uint8_t>(value.type.dtype), &dims,
        static_cast<uint8_t>(value.kind), data ? &*data : nullptr, step.storage_of[i],
        value.coded ? PlaceOf(value.coded->codec) : -1, value.coded ? &coded : nullptr));
  }
  std::vector<Offset<fb::Node>> nodes;
  for (const Node& node : step.graph.nodes) nodes.push_back(Write(node));
  std::vector<fb::SampleLoop> loops;
  for (const SampleLoop& loop : step.graph.loops)
    loops.emplace_back(loop.first, loop.last, loop.tiles, loop.least_samples, loop.tokens);
  return fb::CreateStepGraphDirect(builder_, &values, &nodes, &step.graph.inputs, &step.graph.outputs,
                                   step.storages, &loops);
}

Offset<fb::SavedEdge> Writer::Write(const SavedEdge& edge) {
  const std::vector<Offset<flatbuffers::String>> consumers = [&] {
    std::vector<Offset<flatbuffers::String>> result;
    for (const std::string& consumer : edge.consumers) result.push_back(builder_.CreateString(consumer));
    return result;
  }();
  const fb::Dim bytes = DimToFb(edge.bytes), uncompressed = DimToFb(edge.bytes_uncompressed);
  return fb::CreateSavedEdgeDirect(builder_, edge.name.c_str(), edge.stored, &consumers, edge.form.c_str(),
                                   edge.reason.c_str(), edge.bits, &bytes, &uncompressed, edge.variance,
                                   edge.least_bits);
}

Offset<fb::Prepared> Writer::Write(const Prepared& prepared) {
  std::vector<Offset<fb::PreparedKernel>> kernels;
  for (const PreparedKernel& kernel : prepared.kernels) {
    const std::optional<fb::Blob> image = AddBlob(kernel.image);
    kernels.push_back(fb::CreatePreparedKernelDirect(builder_, kernel.key.c_str(), kernel.name.c_str(),
                                                     image ? &*image : nullptr));
  }
  std::vector<Offset<fb::PreparedEngine>> engines;
  for (const PreparedEngine& engine : prepared.engines) {
    const std::optional<fb::Blob> plan = AddBlob(engine.plan);
    engines.push_back(fb::CreatePreparedEngineDirect(builder_, engine.problem.c_str(), engine.engine.c_str(),
                                                     engine.workspace_bytes, plan ? &*plan : nullptr));
  }
  return fb::CreatePreparedDirect(builder_, prepared.card.c_str(), prepared.compiler.c_str(),
                                  prepared.library.c_str(), prepared.batch, &kernels, &engines);
}

void Writer::Build(const Plan& plan) {
  const Offset<fb::StepGraph> train = Write(plan.train), eval = Write(plan.eval);
  std::vector<Offset<fb::SavedEdge>> edges;
  for (const SavedEdge& edge : plan.edges) edges.push_back(Write(edge));
  std::vector<Offset<fb::Hyperparameter>> hyper;
  for (const auto& [name, value] : plan.hyper)
    hyper.push_back(fb::CreateHyperparameterDirect(builder_, name.c_str(), value));
  std::vector<Offset<fb::Codec>> codecs;
  for (const Codec& codec : codecs_) {
    const std::vector<Offset<fb::Attribute>> attrs = Write(AttributesOf(codec));
    codecs.push_back(fb::CreateCodecDirect(builder_, &attrs));
  }
  const std::optional<fb::Blob> model = AddBlob(plan.onnx_model);
  const Offset<fb::Prepared> prepared = plan.prepared ? Write(*plan.prepared) : 0;
  fb::FinishPlanBuffer(
      builder_,
      fb::CreatePlanDirect(builder_, plan.model_name.c_str(), plan.level.c_str(), plan.optimizer.c_str(),
                           plan.seed, plan.default_batch, plan.fixed_batch, plan.workspace_limit, train, eval,
                           &edges, model ? &*model : nullptr, plan.clip_norm, plan.accumulate, &hyper,
                           &codecs, static_cast<uint8_t>(plan.compute), prepared));
}

llvm::Error Writer::Save(const std::string& path) const {
  const auto schema_bytes = static_cast<int64_t>(builder_.GetSize());
  plan_file::Header header = {};
  std::memcpy(header.magic, plan_file::kMagic, sizeof header.magic);
  header.version = kPlanVersion;
  header.schema_bytes = static_cast<uint64_t>(schema_bytes);
  header.blob_bytes = static_cast<uint64_t>(blob_bytes_);
  header.file_bytes = sizeof header + static_cast<uint64_t>(plan_file::AlignUp(schema_bytes)) +
                      header.blob_bytes + plan_file::kChecksumBytes;

  ACT_TRY(auto file, OutputFile::Create(path));
  const auto write_padded = [&](const void* data, int64_t bytes) -> llvm::Error {
    static constexpr char kZeros[plan_file::kAlignment] = {};
    ACT_CHECK_OK(file->Write(data, bytes));
    return file->Write(kZeros, plan_file::AlignUp(bytes) - bytes);
  };
  ACT_CHECK_OK(file->Write(&header, sizeof header));
  ACT_CHECK_OK(write_padded(builder_.GetBufferPointer(), schema_bytes));
  for (const HostTensor& blob : blobs_) ACT_CHECK_OK(write_padded(blob.data, blob.bytes));

  uint64_t checksum = 0;
  {
    ACT_TRY(const auto written, file->ReadBack());
    checksum =
        plan_file::Checksum(written->bytes(), [&](plan_file::Bytes piece) { written->ReleasePages(piece); });
  }
  ACT_CHECK_OK(file->Write(&checksum, sizeof checksum));
  return file->Commit();
}

}  // namespace

llvm::Error WritePlan(const Plan& plan, const std::string& path) {
  if (llvm::Error error = CheckPlan(plan)) return WithPlace(std::move(error), path);
  return WriteUncheckedPlan(plan, path);
}

llvm::Error WriteUncheckedPlan(const Plan& plan, const std::string& path) {
  Writer writer;
  writer.Build(plan);
  return writer.Save(path);
}

}  // namespace act
