#include "compiler/emit/export_trained.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>

#include "onnx/onnx-ml.pb.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"

namespace act {
namespace {

constexpr int64_t kAlignment = 64;  // of tensors in the data file

int64_t BytesOf(const onnx::TensorProto& tensor) {
  std::vector<int64_t> dims(tensor.dims().begin(), tensor.dims().end());
  return SaturatingMul(ElementCount(dims), static_cast<int64_t>(sizeof(float)));
}

// The import took this initializer's data, so it is a parameter or a running statistic.
bool IsEmptied(const onnx::TensorProto& tensor) {
  return tensor.data_type() == onnx::TensorProto::FLOAT && !tensor.has_raw_data() &&
         tensor.float_data_size() == 0 && tensor.data_location() != onnx::TensorProto::EXTERNAL &&
         BytesOf(tensor) > 0;
}

using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

// Names of what follows from constants and shapes alone.
std::set<std::string> ConstantsAmong(const Nodes& nodes) {
  std::set<std::string> names;
  for (const onnx::NodeProto& node : nodes) {
    const bool of_shape = node.op_type() == "Shape" || node.op_type() == "Size";
    const bool constant = std::all_of(node.input().begin(), node.input().end(), [&](const std::string& name) {
      return name.empty() || names.count(name) != 0;
    });
    if (constant || of_shape) names.insert(node.output().begin(), node.output().end());
  }
  return names;
}

// Both operators compute something else in training, or cannot run outside a training build at all.
// A BatchNormalization whose statistics are constants stays as it is: the batch's are all it has.
void ForInference(Nodes& nodes) {
  const std::set<std::string> constants = ConstantsAmong(nodes);
  for (onnx::NodeProto& node : nodes) {
    if (node.op_type() == "Dropout" && node.input_size() > 2)
      node.mutable_input()->DeleteSubrange(2, node.input_size() - 2);
    if (node.op_type() != "BatchNormalization" || node.input_size() < 5 || constants.count(node.input(3)))
      continue;
    for (int i = node.attribute_size() - 1; i >= 0; --i)
      if (node.attribute(i).name() == "training_mode") node.mutable_attribute()->DeleteSubrange(i, 1);
    if (node.output_size() > 1) node.mutable_output()->DeleteSubrange(1, node.output_size() - 1);
  }
}

void AddExternal(onnx::TensorProto& tensor, const char* key, const std::string& value) {
  auto& entry = *tensor.add_external_data();
  entry.set_key(key);
  entry.set_value(value);
}

}  // namespace

llvm::Error ExportTrainedOnnx(const Plan& plan, const TrainedValues& values, const std::string& path,
                              int64_t inline_limit) {
  onnx::ModelProto model;
  const HostTensor& skeleton = plan.onnx_model;
  if (!skeleton.data || skeleton.bytes > INT32_MAX ||
      !model.ParseFromArray(skeleton.data, static_cast<int>(skeleton.bytes)))
    return MakeError(path, "the plan does not contain its ONNX model");
  ForInference(*model.mutable_graph()->mutable_node());
  for (onnx::FunctionProto& function : *model.mutable_functions()) ForInference(*function.mutable_node());

  int64_t total = 0;
  for (const auto& tensor : model.graph().initializer())
    if (IsEmptied(tensor)) total = SaturatingAdd(total, BytesOf(tensor));
  const bool beside = total > inline_limit;
  std::unique_ptr<OutputFile> data_file;
  if (beside) {
    ACT_TRY(data_file, OutputFile::Create(path + ".data"));
  }

  int64_t offset = 0;
  for (onnx::TensorProto& tensor : *model.mutable_graph()->mutable_initializer()) {
    if (!IsEmptied(tensor)) continue;
    ACT_TRY(const std::span<const std::byte> value, values(tensor.name()));
    const auto bytes = static_cast<int64_t>(value.size());
    if (value.empty())
      return MakeError(path, "there is no value for the initializer '" + tensor.name() + "'");
    if (bytes != BytesOf(tensor))
      return MakeError(path, "'" + tensor.name() + "' has " + std::to_string(bytes) +
                                 " bytes, the model's has " + std::to_string(BytesOf(tensor)));
    if (!beside) {
      tensor.set_raw_data(value.data(), value.size());
      continue;
    }
    static constexpr char kZeros[kAlignment] = {};
    const int64_t padding = (kAlignment - offset % kAlignment) % kAlignment;
    ACT_CHECK_OK(data_file->Write(kZeros, padding));
    offset += padding;
    tensor.set_data_location(onnx::TensorProto::EXTERNAL);
    AddExternal(tensor, "location", std::filesystem::path(path).filename().string() + ".data");
    AddExternal(tensor, "offset", std::to_string(offset));
    AddExternal(tensor, "length", std::to_string(bytes));
    ACT_CHECK_OK(data_file->Write(value.data(), bytes));
    offset += bytes;
  }

  std::string file;
  if (!model.SerializeToString(&file)) return MakeError(path, "the model is too large for an ONNX file");
  // The model names the data, so it comes last; and neither replaces an old file before both are written.
  ACT_TRY(auto model_file, OutputFile::Create(path));
  ACT_CHECK_OK(model_file->Write(file.data(), static_cast<int64_t>(file.size())));
  if (data_file) ACT_CHECK_OK(data_file->Commit());
  return model_file->Commit();
}

}  // namespace act
