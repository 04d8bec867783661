#include "compiler/import/file/model_file.h"

#include <llvm/ADT/APFloat.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "compiler/import/known/onnx_types.h"
#include "compiler/import/known/standard_domain.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/plan/plan_check.h"
#include "runtime/plan/plan_file.h"

namespace act::onnx_import {
namespace {

constexpr int64_t kOldestIr = 3, kNewestIr = onnx::IR_VERSION;

// What a file that is not an ONNX model is, where its bytes show it.
llvm::Error NotAModel(std::string_view bytes, const std::string& path) {
  if (bytes.empty()) return MakeError(path, "is empty, not an ONNX model");
  if (bytes.starts_with(std::string_view(plan_file::kMagic, sizeof plan_file::kMagic)))
    return MakeError(path, "a plan, not an ONNX model",
                     "run it with actrun, or give actc the model it was made from");
  if (bytes.starts_with("PK\x03\x04"))
    return MakeError(path, "a zip archive (a PyTorch file?), not an ONNX model",
                     "export the model with torch.onnx.export");
  return MakeError(path, "not an ONNX model, or a truncated one");
}

llvm::Expected<int64_t> DefaultOpset(const onnx::ModelProto& proto, const std::string& path) {
  int64_t opset = 0;
  for (const auto& import : proto.opset_import())
    if (IsStandardDomain(import.domain())) opset = std::max(opset, import.version());
  // A model without standard operators names no version; any would do, so take the newest.
  const auto is_standard = [](const onnx::NodeProto& node) { return IsStandardDomain(node.domain()); };
  const auto& nodes = proto.graph().node();
  if (opset == 0 && !nodes.empty() && std::none_of(nodes.begin(), nodes.end(), is_standard))
    return kNewestOpset;
  if (opset == 0) return MakeError(path, "imports no version of the standard operators (opset_import)");
  ACT_CHECK_OK(CheckOpset(opset, path));
  return opset;
}

std::optional<int64_t> ParseInteger(const std::string& text) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || rest != end) return std::nullopt;
  return value;
}

// One of ONNX's repeated fields as `type` stores it.
template <class To, class Field>
llvm::Expected<HostTensor> FromField(const Field& field, const std::string& place, int64_t elements) {
  if (field.size() != elements)
    return MakeError(place, "holds " + std::to_string(field.size()) + " elements, its dims say " +
                                std::to_string(elements));
  auto values = std::make_shared<std::vector<To>>();
  values->reserve(static_cast<size_t>(field.size()));
  for (const auto value : field) values->push_back(static_cast<To>(value));
  const auto* bytes = reinterpret_cast<const std::byte*>(values->data());
  return HostTensor{values, bytes, elements * static_cast<int64_t>(sizeof(To))};
}

llvm::Expected<HostTensor> FromFields(const onnx::TensorProto& t, DType dtype, const std::string& place,
                                      int64_t n) {
  switch (dtype) {
    case DType::kFloat32:
      return FromField<float>(t.float_data(), place, n);
    case DType::kFloat64:
      return FromField<double>(t.double_data(), place, n);
    case DType::kInt64:
      return FromField<int64_t>(t.int64_data(), place, n);
    case DType::kInt32:
      return FromField<int32_t>(t.int32_data(), place, n);
    case DType::kInt16:
      return FromField<int16_t>(t.int32_data(), place, n);
    case DType::kFloat16:
    case DType::kBFloat16:
      return FromField<uint16_t>(t.int32_data(), place, n);
    case DType::kInt8:
      return FromField<int8_t>(t.int32_data(), place, n);
    case DType::kUint16:
      return FromField<uint16_t>(t.int32_data(), place, n);
    case DType::kUint32:
      return FromField<uint32_t>(t.uint64_data(), place, n);
    case DType::kUint64:
      return FromField<uint64_t>(t.uint64_data(), place, n);
    case DType::kUint8:
    case DType::kBool:
      return FromField<uint8_t>(t.int32_data(), place, n);
  }
  return MakeError(place, "has an unknown type");
}

// Parameters are read as arrays of their element type: bytes at an odd address are copied.
HostTensor Aligned(HostTensor data, DType dtype) {
  if (reinterpret_cast<uintptr_t>(data.data) % static_cast<uintptr_t>(ByteSize(dtype)) == 0) return data;
  return HostTensor::Copy(data.data, data.bytes);
}

template <class T>
T Load(const HostTensor& data, size_t i) {
  T value;
  std::memcpy(&value, data.data + i * sizeof(T), sizeof value);
  return value;
}

// Numbers of 16 bits as float32, which holds them exactly.
HostTensor Widened(DType from, const HostTensor& halves, int64_t elements) {
  const llvm::fltSemantics& format =
      from == DType::kBFloat16 ? llvm::APFloat::BFloat() : llvm::APFloat::IEEEhalf();
  std::vector<float> numbers;
  for (int64_t i = 0; i < elements; ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, halves.data + i * 2, sizeof bits);
    numbers.push_back(llvm::APFloat(format, llvm::APInt(16, bits)).convertToFloat());
  }
  return HostTensor::Copy(numbers.data(), elements * static_cast<int64_t>(sizeof(float)));
}

HostTensor Narrowed(const HostTensor& doubles, int64_t elements) {
  std::vector<float> numbers;
  for (int64_t i = 0; i < elements; ++i) {
    double number = 0;
    std::memcpy(&number, doubles.data + i * static_cast<int64_t>(sizeof number), sizeof number);
    numbers.push_back(static_cast<float>(number));
  }
  return HostTensor::Copy(numbers.data(), elements * static_cast<int64_t>(sizeof(float)));
}

}  // namespace

llvm::Error CheckOpset(int64_t opset, const std::string& place) {
  if (opset >= kOldestOpset && opset <= kNewestOpset) return llvm::Error::success();
  return MakeError(place,
                   "is opset " + std::to_string(opset) + "; opsets " + std::to_string(kOldestOpset) + " to " +
                       std::to_string(kNewestOpset) + " are supported",
                   "export it again with opset_version=17, or convert it with onnx.version_converter");
}

llvm::Expected<ModelFile> ReadModel(const std::string& path) {
  ACT_TRY(const std::shared_ptr<const MappedFile> mapped, MappedFile::Open(path));
  const std::string_view bytes(reinterpret_cast<const char*>(mapped->bytes().data()), mapped->bytes().size());
  if (bytes.size() > INT32_MAX)
    return MakeError(path, "is larger than 2 GiB, the limit of protobuf", "save it with external data");
  ModelFile file{path, std::make_unique<onnx::ModelProto>(), 0, {}};
  if (bytes.empty() || !file.proto->ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) ||
      !file.proto->has_graph())
    return NotAModel(bytes, path);
  const int64_t ir = file.proto->ir_version();
  if (ir < kOldestIr || ir > kNewestIr)
    return MakeError(path, "is of ONNX IR version " + std::to_string(ir) + "; versions " +
                               std::to_string(kOldestIr) + " to " + std::to_string(kNewestIr) +
                               " are supported");
  ACT_TRY(file.opset, DefaultOpset(*file.proto, path));
  return file;
}  // NOLINT(clang-analyzer-cplusplus.NewDeleteLeaks): what Expected holds it frees

llvm::Expected<TensorType> TypeOf(const onnx::TensorProto& tensor) {
  const std::string place = "tensor '" + tensor.name() + "'";
  const std::optional<DType> dtype = FromOnnxType(tensor.data_type());
  if (!dtype)
    return MakeError(place, "element type " + std::to_string(tensor.data_type()) + " is not supported");
  if (tensor.dims_size() > kMostAxes) return MakeError(place, "has more than 16 axes");
  TensorType type{*dtype, {}};
  for (int64_t dim : tensor.dims()) {
    if (dim < 0 || dim >= kTooLarge) return MakeError(place, "has the extent " + std::to_string(dim));
    type.dims.push_back(dim);
  }
  if (type.Bytes().TooLarge()) return MakeError(place, "is too large: " + ToString(type));
  return type;
}

llvm::Expected<HostTensor> ExternalData::Read(const onnx::TensorProto& tensor, int64_t bytes,
                                              bool allow_missing) {
  std::string location, offset_text = "0", length_text;
  for (const auto& entry : tensor.external_data()) {
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset") offset_text = entry.value();
    if (entry.key() == "length") length_text = entry.value();
  }
  const std::string place = "tensor '" + tensor.name() + "'";
  // Only files in the model's folder: a model must not make us read arbitrary files.
  const std::filesystem::path relative(location);
  bool inside = !location.empty() && relative.is_relative() && location.find('\0') == std::string::npos;
  for (const auto& part : relative) inside = inside && part != "..";
  if (!inside)
    return MakeError(place, "external data '" + location + "' is not a file inside the model's folder");

  const auto found = files_.find(location);
  if (found == files_.end()) {
    const std::string path = (std::filesystem::path(model_path_).parent_path() / relative).string();
    HostTensor file;
    if (auto mapped = MappedFile::Open(path)) {
      file = {*mapped, (*mapped)->bytes().data(), static_cast<int64_t>((*mapped)->bytes().size())};
    } else if (allow_missing) {
      llvm::consumeError(mapped.takeError());
      return HostTensor{};  // not remembered: the next tensor may not do without
    } else {
      return llvm::handleErrors(mapped.takeError(), [&place](const ActError& e) {
        return MakeError(place + ": external data " + e.place(), e.what(),
                         "put the file there, or start from seeded weights with --init=he");
      });
    }
    files_[location] = file;
  }
  const HostTensor& file = files_[location];
  const std::optional<int64_t> offset = ParseInteger(offset_text);
  const std::optional<int64_t> length = length_text.empty() ? bytes : ParseInteger(length_text);
  if (!offset || !length)
    return MakeError(place,
                     "external data has offset '" + offset_text + "' and length '" + length_text + "'");
  if (*length != bytes)
    return MakeError(place, "external data has " + std::to_string(*length) + " bytes, its type needs " +
                                std::to_string(bytes));
  if (*offset < 0 || *offset > file.bytes || bytes > file.bytes - *offset)
    return MakeError(place, "external data '" + location + "' has " + std::to_string(file.bytes) +
                                " bytes; " + std::to_string(bytes) + " at offset " + std::to_string(*offset) +
                                " are not all there");
  return HostTensor{file.owner, file.data + *offset, bytes};
}

llvm::Expected<HostTensor> TakeData(onnx::TensorProto& tensor, const TensorType& type, ExternalData& external,
                                    bool allow_missing) {
  const int64_t elements = type.Elements().fixed, bytes = type.Bytes().fixed;
  const std::string place = "tensor '" + tensor.name() + "'";
  if (tensor.data_location() == onnx::TensorProto::EXTERNAL) {
    ACT_TRY(HostTensor data, external.Read(tensor, bytes, allow_missing));
    return data.owner ? Aligned(std::move(data), type.dtype) : data;
  }
  if (!tensor.has_raw_data()) return FromFields(tensor, type.dtype, place, elements);
  const std::shared_ptr<const std::string> raw(tensor.release_raw_data());
  if (static_cast<int64_t>(raw->size()) != bytes)
    return MakeError(place, "holds " + std::to_string(raw->size()) + " bytes, " + ToString(type) + " needs " +
                                std::to_string(bytes));
  return Aligned(HostTensor{raw, reinterpret_cast<const std::byte*>(raw->data()), bytes}, type.dtype);
}

llvm::Expected<ConstantTensor> TakeConstant(onnx::TensorProto& tensor, ExternalData& external) {
  ConstantTensor taken;
  ACT_TRY(taken.type, TypeOf(tensor));
  ACT_TRY(taken.data, TakeData(tensor, taken.type, external, false));
  if (IsHalf(taken.type.dtype)) {
    taken.data = Widened(taken.type.dtype, taken.data, taken.type.Elements().fixed);
    taken.type.dtype = DType::kFloat32;
  } else if (taken.type.dtype == DType::kFloat64 && taken.type.Elements().fixed > kMaxKnownElements) {
    taken.data = Narrowed(taken.data, taken.type.Elements().fixed);
    taken.type.dtype = DType::kFloat32;
  }
  return taken;
}

llvm::Expected<Known> ToKnown(const TensorType& type, const HostTensor& data) {
  Known known{type, {}};
  const auto count = static_cast<size_t>(type.Elements().fixed);
  for (size_t i = 0; i < count; ++i) {
    const auto integer = [&known](int64_t value) { known.elements.push_back({Dim(value), 0}); };
    switch (type.dtype) {
      case DType::kFloat32:
        known.elements.push_back({Dim(0), Load<float>(data, i)});
        break;
      case DType::kFloat64:
        known.elements.push_back({Dim(0), Load<double>(data, i)});
        break;
      case DType::kInt64:
        integer(Load<int64_t>(data, i));
        break;
      case DType::kInt32:
        integer(Load<int32_t>(data, i));
        break;
      case DType::kInt16:
        integer(Load<int16_t>(data, i));
        break;
      case DType::kInt8:
        integer(Load<int8_t>(data, i));
        break;
      case DType::kUint8:
        integer(Load<uint8_t>(data, i));
        break;
      case DType::kUint16:
        integer(Load<uint16_t>(data, i));
        break;
      case DType::kUint32:
        integer(Load<uint32_t>(data, i));
        break;
      case DType::kUint64:
        if (Load<uint64_t>(data, i) > INT64_MAX)
          return MakeError("", "constants of type u64 above 2^63 - 1 are not supported");
        integer(static_cast<int64_t>(Load<uint64_t>(data, i)));
        break;
      case DType::kBool:
        integer(Load<uint8_t>(data, i) != 0);
        break;
      case DType::kFloat16:
      case DType::kBFloat16:
        return MakeError("", "constants of type " + std::string(ToString(type.dtype)) + " are not supported");
    }
  }
  return known;
}

}  // namespace act::onnx_import
