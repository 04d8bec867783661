#include <algorithm>
#include <span>

#include "plan_generated.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/codec/codec_row.h"
#include "runtime/plan/plan_check.h"
#include "runtime/plan/plan_file.h"
#include "runtime/plan/plan_io.h"

namespace act {
namespace {

using plan_file::Bytes;

// Converts the FlatBuffer to a Plan. The first problem is kept; after it, the result has
// no meaning.
class Reader {
 public:
  Reader(std::shared_ptr<const MappedFile> file, const plan_file::Sections& sections)
      : file_(std::move(file)), blobs_(sections.blobs), budget_(sections.schema.size()) {}

  Plan Read(const fb::Plan& from);
  const std::string& problem() const { return problem_; }
  const std::string& unknown_codec() const { return unknown_codec_; }  // a codec that this program lacks

 private:
  void Fail(const std::string& problem) {
    if (problem_.empty()) problem_ = problem;
  }
  // Each vector's bytes may be read only once, so that hostile offsets cannot make a small file
  // fill the memory. The alignment is checked too: FlatBuffers' Verifier does not check it for
  // vectors of 8-byte elements.
  bool Take(const void* data, size_t bytes, size_t alignment) {
    if (bytes > budget_) Fail("parts of its FlatBuffer overlap");
    if (bytes > 0 && reinterpret_cast<uintptr_t>(data) % alignment != 0)
      Fail("its FlatBuffer is not aligned");
    if (!problem_.empty()) return false;
    budget_ -= bytes;
    return true;
  }

  template <class T>
  T Enum(uint8_t value, T last) {
    if (value > static_cast<uint8_t>(last)) Fail("an enumeration has a value that is not known");
    return static_cast<T>(value);
  }
  std::string Text(const flatbuffers::String* from) {
    return from && Take(from->c_str(), from->size(), 1) ? from->str() : std::string();
  }
  template <class T>
  std::vector<T> Numbers(const flatbuffers::Vector<T>* from) {
    if (!from || !Take(from->Data(), from->size() * sizeof(T), alignof(T))) return {};
    return std::vector<T>(from->begin(), from->end());
  }
  // A vector of structs or of tables. `read` converts each of them to a T.
  template <class T, class Struct, class Read>
  std::vector<T> Each(const flatbuffers::Vector<const Struct*>* from, Read read) {
    std::vector<T> result;
    if (!from || !Take(from->Data(), from->size() * sizeof(Struct), alignof(Struct))) return result;
    result.reserve(from->size());
    for (const Struct* element : *from) result.push_back(read(*element));
    return result;
  }
  template <class T, class Table, class Read>
  std::vector<T> Each(const flatbuffers::Vector<flatbuffers::Offset<Table>>* from, Read read) {
    std::vector<T> result;
    if (!from || !Take(from->Data(), from->size() * sizeof(flatbuffers::uoffset_t), 1)) return result;
    result.reserve(from->size());
    for (const Table* element : *from) result.push_back(read(*element));
    return result;
  }

  static Dim ReadDim(const fb::Dim& from) { return {from.fixed(), from.per_batch(), from.per_batch2()}; }
  Dim ReadDim(const fb::Dim* from) {
    return from && Take(from, sizeof *from, alignof(fb::Dim)) ? ReadDim(*from) : Dim(0);
  }
  Dims ReadDims(const flatbuffers::Vector<const fb::Dim*>* from) {
    return Each<Dim>(from, [](const fb::Dim& dim) { return ReadDim(dim); });
  }
  // place: in the plan's codecs, or -1.
  Codec CodecAt(int32_t place) {
    if (place >= 0 && static_cast<size_t>(place) < codecs_.size()) return codecs_[static_cast<size_t>(place)];
    if (place != -1) Fail("it has no codec " + std::to_string(place));
    return {};
  }
  Codec ReadCodec(const fb::Codec& from);
  HostTensor ReadBlob(const fb::Blob* from);
  Attributes ReadAttributes(const flatbuffers::Vector<flatbuffers::Offset<fb::Attribute>>* from);
  Program ReadProgram(const fb::Program* from);
  Node ReadNode(const fb::Node& from);
  StepGraph ReadStep(const fb::StepGraph& from);
  Prepared ReadPrepared(const fb::Prepared& from);

  std::shared_ptr<const MappedFile> file_;
  Bytes blobs_;
  size_t budget_;
  std::vector<Codec> codecs_;
  std::string problem_, unknown_codec_;
};

HostTensor Reader::ReadBlob(const fb::Blob* from) {
  if (!from || !Take(from, sizeof *from, alignof(fb::Blob))) return {};
  if (from->offset() > blobs_.size() || from->bytes() > blobs_.size() - from->offset()) {
    Fail("a blob lies outside the file");
    return {};
  }
  if (from->offset() % plan_file::kAlignment != 0) Fail("a blob is not aligned");
  return {file_, blobs_.data() + from->offset(), static_cast<int64_t>(from->bytes())};
}

Attributes Reader::ReadAttributes(const flatbuffers::Vector<flatbuffers::Offset<fb::Attribute>>* from) {
  Attributes result;
  if (!from) return result;
  for (const fb::Attribute* attribute : *from) {
    const std::string name = Text(attribute->name());
    const std::vector<int64_t> ints = Numbers(attribute->ints());
    const std::vector<double> floats = Numbers(attribute->floats());
    if (result.Has(name)) Fail("attribute '" + name + "' is there twice");
    switch (attribute->kind()) {
      case fb::AttributeKind_Int:
        if (ints.size() != 1) Fail("attribute '" + name + "' is not one integer");
        result.Set(name, ints.empty() ? 0 : ints[0]);
        break;
      case fb::AttributeKind_Float:
        if (floats.size() != 1) Fail("attribute '" + name + "' is not one number");
        result.Set(name, floats.empty() ? 0.0 : floats[0]);
        break;
      case fb::AttributeKind_String:
        result.Set(name, Text(attribute->text()));
        break;
      case fb::AttributeKind_Ints:
        result.Set(name, ints);
        break;
      case fb::AttributeKind_Floats:
        result.Set(name, floats);
        break;
      default:
        Fail("attribute '" + name + "' is of no known kind");
    }
  }
  return result;
}

Codec Reader::ReadCodec(const fb::Codec& from) {
  const Attributes attrs = ReadAttributes(from.attrs());
  Codec codec = CodecOf(attrs);
  if (codec.kind == CodecKind::kNone && unknown_codec_.empty())
    unknown_codec_ = "'" + attrs.String("kind") + "'";
  return codec;
}

Program Reader::ReadProgram(const fb::Program* from) {
  Program program;
  if (!from) return program;
  program.space = ReadDims(from->space());
  program.row_axes = from->row_axes();
  program.inputs = Each<ProgramInput>(from->inputs(), [&](const fb::ProgramInput& input) {
    return ProgramInput{CodecAt(input.codec()), input.stream(), input.mask()};
  });
  program.constants = Each<ProgramConstant>(from->constants(), [](const fb::ProgramConstant& constant) {
    return ProgramConstant{constant.value(), ReadDim(constant.extent())};
  });
  program.instrs = Each<Instr>(from->instrs(), [&](const fb::Instr& i) {
    return Instr{Enum(i.op(), Opcode::kRowMax), i.a(), i.b(), i.c(), i.parameter(), i.stream()};
  });
  program.outputs = Each<ProgramOutput>(from->outputs(), [&](const fb::ProgramOutput& o) {
    return ProgramOutput{Enum(o.kind(), OutputKind::kRowStore), o.reg(), CodecAt(o.codec()), o.stream()};
  });
  return program;
}

Node Reader::ReadNode(const fb::Node& from) {
  Node node;
  node.op = Text(from.op());
  node.name = Text(from.name());
  node.inputs = Numbers(from.inputs());
  node.outputs = Numbers(from.outputs());
  node.attrs = ReadAttributes(from.attrs());
  node.phase = Enum(from.phase(), Phase::kUpdate);
  node.mutates = Numbers(from.mutates());
  node.program = ReadProgram(from.program());
  const std::vector<CappedDim> workspaces = Each<CappedDim>(
      from.workspaces(), [](const fb::Workspace& w) { return CappedDim(ReadDim(w.size()), w.most()); });
  if (workspaces.size() == kTargetKinds) {
    std::copy(workspaces.begin(), workspaces.end(), node.workspace_bytes.of);
  } else {
    Fail("a node has " + std::to_string(workspaces.size()) + " of " + std::to_string(kTargetKinds) +
         " workspaces");
  }
  return node;
}

StepGraph Reader::ReadStep(const fb::StepGraph& from) {
  StepGraph step;
  step.graph.values = Each<Value>(from.values(), [&](const fb::Value& value) {
    step.storage_of.push_back(value.storage());
    std::shared_ptr<const CodedParameter> coded;
    if (value.codec() != -1)
      coded = std::make_shared<CodedParameter>(
          CodedParameter{CodecAt(value.codec()), {DType::kFloat32, ReadDims(value.coded())}});
    return Value{Text(value.name()),
                 {Enum(value.dtype(), kLastDType), ReadDims(value.dims())},
                 Enum(value.kind(), ValueKind::kGradientSum),
                 ReadBlob(value.data()),
                 std::move(coded)};
  });
  step.graph.nodes = Each<Node>(from.nodes(), [&](const fb::Node& node) { return ReadNode(node); });
  step.graph.inputs = Numbers(from.inputs());
  step.graph.outputs = Numbers(from.outputs());
  step.storages = from.storages();
  step.graph.loops = Each<SampleLoop>(from.loops(), [](const fb::SampleLoop& loop) {
    return SampleLoop{loop.first(), loop.last(), loop.tiles(), loop.least_samples(), loop.tokens()};
  });
  return step;
}

Prepared Reader::ReadPrepared(const fb::Prepared& from) {
  Prepared prepared;
  prepared.card = Text(from.card());
  prepared.compiler = Text(from.compiler());
  prepared.library = Text(from.library());
  prepared.batch = from.batch();
  prepared.kernels = Each<PreparedKernel>(from.kernels(), [&](const fb::PreparedKernel& kernel) {
    return PreparedKernel{Text(kernel.key()), Text(kernel.name()), ReadBlob(kernel.image())};
  });
  prepared.engines = Each<PreparedEngine>(from.engines(), [&](const fb::PreparedEngine& engine) {
    return PreparedEngine{Text(engine.problem()), Text(engine.engine()), engine.workspace_bytes(),
                          ReadBlob(engine.plan())};
  });
  return prepared;
}

Plan Reader::Read(const fb::Plan& from) {
  Plan plan;
  plan.model_name = Text(from.model_name());
  plan.level = Text(from.level());
  plan.optimizer = Text(from.optimizer());
  plan.seed = from.seed();
  plan.default_batch = from.default_batch();
  plan.fixed_batch = from.fixed_batch();
  plan.workspace_limit = from.workspace_limit();
  codecs_ = Each<Codec>(from.codecs(), [&](const fb::Codec& codec) { return ReadCodec(codec); });
  plan.train = ReadStep(*from.train());
  plan.eval = ReadStep(*from.eval());
  plan.edges = Each<SavedEdge>(from.edges(), [&](const fb::SavedEdge& edge) {
    SavedEdge result;
    result.name = Text(edge.name());
    result.stored = edge.stored();
    result.consumers =
        Each<std::string>(edge.consumers(), [&](const flatbuffers::String& s) { return Text(&s); });
    result.form = Text(edge.form());
    result.reason = Text(edge.reason());
    result.bits = edge.bits();
    result.bytes = ReadDim(edge.bytes());
    result.bytes_uncompressed = ReadDim(edge.bytes_uncompressed());
    result.variance = edge.variance();
    result.least_bits = edge.least_bits();
    return result;
  });
  if (from.hyper())
    for (const fb::Hyperparameter* h : *from.hyper()) plan.hyper[Text(h->name())] = h->value();
  plan.compute = Enum(from.compute(), kLastCompute);
  plan.clip_norm = from.clip_norm();
  plan.accumulate = from.accumulate();
  plan.onnx_model = ReadBlob(from.onnx_model());
  if (from.prepared()) plan.prepared = std::make_shared<const Prepared>(ReadPrepared(*from.prepared()));
  return plan;
}

llvm::Expected<Plan> ReadMapped(std::shared_ptr<const MappedFile> file) {
  ACT_TRY(const plan_file::Sections sections,
          plan_file::Open(file->bytes(), [&](plan_file::Bytes piece) { file->ReleasePages(piece); }));
  const auto* schema = reinterpret_cast<const uint8_t*>(sections.schema.data());
  flatbuffers::Verifier verifier(schema, sections.schema.size());
  if (!fb::VerifyPlanBuffer(verifier)) return MakeError("", "damaged: its FlatBuffer is malformed");
  Reader reader(std::move(file), sections);
  Plan plan = reader.Read(*fb::GetPlan(schema));
  if (!reader.problem().empty()) return MakeError("", "damaged: " + reader.problem());
  if (!reader.unknown_codec().empty())
    return MakeError("",
                     "a plan with the codec " + reader.unknown_codec() + ", which this program does not have",
                     "run it with the version of act that compiled it, or compile the model again");
  ACT_CHECK_OK(CheckPlan(plan));
  return plan;
}

}  // namespace

llvm::Expected<Plan> ReadPlan(const std::string& path) {
  ACT_TRY(auto file, MappedFile::Open(path));
  llvm::Expected<Plan> plan = ReadMapped(std::move(file));
  if (!plan) return WithPlace(plan.takeError(), path);
  return plan;
}

}  // namespace act
