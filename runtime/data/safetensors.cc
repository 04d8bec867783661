#include "runtime/data/safetensors.h"

#include <llvm/Support/Endian.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>

#include "runtime/base/error.h"
#include "runtime/base/json.h"

namespace act {
namespace {

constexpr int64_t kLengthBytes = 8;
constexpr int64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit

struct TypeName {
  DType dtype;
  const char* name;
};
constexpr TypeName kTypeNames[] = {
    {DType::kFloat32, "F32"}, {DType::kInt64, "I64"},   {DType::kInt32, "I32"},   {DType::kUint8, "U8"},
    {DType::kBool, "BOOL"},   {DType::kFloat64, "F64"}, {DType::kFloat16, "F16"}, {DType::kBFloat16, "BF16"},
    {DType::kInt8, "I8"},     {DType::kInt16, "I16"},   {DType::kUint16, "U16"},  {DType::kUint32, "U32"},
    {DType::kUint64, "U64"}};

const char* NameOf(DType dtype) {
  for (const TypeName& type : kTypeNames) {
    if (type.dtype == dtype) return type.name;
  }
  return "?";
}

std::optional<DType> DTypeOf(llvm::StringRef name) {
  for (const TypeName& type : kTypeNames) {
    if (name == type.name) return type.dtype;
  }
  return std::nullopt;
}

// Reads one header entry as a view into `data`. Returns what is wrong with it, or "".
std::string ReadEntry(const llvm::json::Value& value, std::span<const std::byte> data, HostView& view) {
  const llvm::json::Object* entry = value.getAsObject();
  if (!entry) return "its header entry is no object";
  const auto dtype_name = entry->getString("dtype");
  const llvm::json::Array* shape = entry->getArray("shape");
  const llvm::json::Array* offsets = entry->getArray("data_offsets");
  if (!dtype_name || !shape || !offsets || offsets->size() != 2)
    return "dtype, shape or data_offsets is missing";
  const auto dtype = DTypeOf(*dtype_name);
  if (!dtype) return "its type " + dtype_name->str() + " is not supported";
  view.dtype = *dtype;
  for (const llvm::json::Value& dim : *shape) {
    const auto extent = IntegerOf(dim);
    if (!extent || *extent < 0) return "its shape holds something else than extents";
    view.dims.push_back(*extent);
  }
  const auto begin = IntegerOf((*offsets)[0]), end = IntegerOf((*offsets)[1]);
  if (!begin || !end || *begin < 0 || *begin > *end || *end > static_cast<int64_t>(data.size())) {
    return "its bytes lie outside of the file: the file is cut off or damaged";
  }
  view.bytes = *end - *begin;
  const int64_t needed = SaturatingMul(ElementCount(view.dims), ByteSize(view.dtype));
  if (view.bytes != needed) {
    return "it holds " + std::to_string(view.bytes) + " bytes, " + ToString(view) + " needs " +
           std::to_string(needed);
  }
  view.data = data.data() + *begin;
  return "";
}

// The tensors must cover the data exactly.
llvm::Error CheckCover(const std::map<std::string, HostView>& tensors, std::span<const std::byte> data) {
  std::vector<std::pair<const std::byte*, int64_t>> parts;
  parts.reserve(tensors.size());
  for (const auto& [name, view] : tensors) parts.emplace_back(view.data, view.bytes);
  std::sort(parts.begin(), parts.end());
  const std::byte* expected = data.data();
  for (const auto& [begin, bytes] : parts) {
    if (begin != expected) return MakeError("", "its tensors overlap or leave holes: the file is damaged");
    expected += bytes;
  }
  if (expected != data.data() + data.size())
    return MakeError("", "has bytes that belong to no tensor: the file is damaged");
  return llvm::Error::success();
}

llvm::Error ReadTensors(std::span<const std::byte> bytes, std::map<std::string, HostView>& tensors) {
  const auto not_one = [](const char* why) {
    return MakeError("", std::string("not a safetensors file: ") + why);
  };
  if (bytes.size() < kLengthBytes) return not_one("it is too short");
  const uint64_t header_bytes = llvm::support::endian::read64le(bytes.data());
  if (header_bytes > kMaxHeaderBytes || header_bytes > bytes.size() - kLengthBytes) {
    return not_one("its header is longer than the file");
  }
  const auto* text = reinterpret_cast<const char*>(bytes.data()) + kLengthBytes;
  const llvm::StringRef header(text, header_bytes);
  if (!header.starts_with("{")) return not_one("it does not begin with a JSON header");
  auto json = ParseJson(header);
  if (!json) return not_one(("its header is no JSON: " + llvm::toString(json.takeError())).c_str());
  const llvm::json::Object* entries = json->getAsObject();
  if (!entries) return not_one("its header is no JSON object");

  const auto data = bytes.subspan(kLengthBytes + header_bytes);
  for (const auto& [key, value] : *entries) {
    const std::string name = key.str();
    if (name == "__metadata__") continue;
    const std::string problem = ReadEntry(value, data, tensors[name]);
    if (!problem.empty()) return MakeError("tensor '" + name + "'", problem);
  }
  return CheckCover(tensors, data);
}

}  // namespace

llvm::Expected<Safetensors> Safetensors::Open(const std::string& path) {
  Safetensors result;
  result.path_ = path;
  ACT_TRY(result.file_, MappedFile::Open(path));
  if (llvm::Error error = ReadTensors(result.file_->bytes(), result.tensors_))
    return WithPlace(std::move(error), path);
  return result;
}

const HostView* Safetensors::Find(const std::string& name) const {
  const auto it = tensors_.find(name);
  return it == tensors_.end() ? nullptr : &it->second;
}

llvm::Error WriteSafetensors(const std::string& path, const std::vector<NamedTensor>& tensors) {
  std::string header;
  llvm::raw_string_ostream stream(header);
  llvm::json::OStream json(stream);
  int64_t offset = 0;
  json.object([&] {
    for (const NamedTensor& tensor : tensors) {
      json.attributeObject(llvm::json::fixUTF8(tensor.name), [&] {
        json.attribute("dtype", NameOf(tensor.view.dtype));
        json.attribute("shape", llvm::json::Array(tensor.view.dims));
        json.attribute("data_offsets", llvm::json::Array({offset, offset + tensor.view.bytes}));
      });
      offset += tensor.view.bytes;
    }
  });
  stream.flush();
  header.resize((header.size() + 7) / 8 * 8, ' ');  // so that the data is aligned: readers map it

  ACT_TRY(auto file, OutputFile::Create(path));
  char length[kLengthBytes];
  llvm::support::endian::write64le(length, header.size());
  ACT_CHECK_OK(file->Write(length, kLengthBytes));
  ACT_CHECK_OK(file->Write(header.data(), static_cast<int64_t>(header.size())));
  for (const NamedTensor& tensor : tensors) {
    const std::byte* data = tensor.view.data;
    if (tensor.read) {
      ACT_TRY(const std::span<const std::byte> bytes, tensor.read());
      data = bytes.data();
    }
    ACT_CHECK_OK(file->Write(data, tensor.view.bytes));
  }
  return file->Commit();
}

}  // namespace act
