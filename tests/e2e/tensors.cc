#include "tests/e2e/tensors.h"

#include <llvm/Support/raw_ostream.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "runtime/base/error.h"
#include "tests/e2e/process.h"

namespace act::e2e {
namespace {

template <class T>
std::vector<double> Convert(const char* bytes, size_t size) {
  std::vector<double> values(size / sizeof(T));
  for (size_t i = 0; i < values.size(); ++i) {
    T value;
    std::memcpy(&value, bytes + i * sizeof(T), sizeof(T));
    values[i] = static_cast<double>(value);
  }
  return values;
}

template <class T>
std::string Bytes(const std::vector<double>& values) {
  std::string bytes;
  for (const double x : values) {
    const T value = static_cast<T>(x);
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  return bytes;
}

}  // namespace

llvm::Expected<Tensors> ReadTensors(const std::string& path) {
  const std::string file = ReadFile(path);
  uint64_t header_bytes = 0;
  if (file.size() < 8) return MakeError(path, "not a safetensors file");
  std::memcpy(&header_bytes, file.data(), 8);
  if (header_bytes > file.size() - 8) return MakeError(path, "header longer than the file");
  ACT_TRY(const llvm::json::Value header, llvm::json::parse(file.substr(8, header_bytes)));
  const size_t start = 8 + header_bytes, available = file.size() - start;
  Tensors tensors;
  for (const auto& [key, value] : *header.getAsObject()) {
    if (key == "__metadata__") continue;
    const llvm::json::Object& entry = *value.getAsObject();
    const llvm::json::Array& range = *entry.getArray("data_offsets");
    const size_t begin = *range[0].getAsInteger(), end = *range[1].getAsInteger();
    if (begin > end || end > available) return MakeError(path, "tensor " + key.str() + " outside the file");
    Tensor tensor;
    for (const auto& extent : *entry.getArray("shape")) tensor.shape.push_back(*extent.getAsInteger());
    const llvm::StringRef dtype = *entry.getString("dtype");
    tensor.dtype = dtype.str();
    const char* bytes = file.data() + start + begin;
    if (dtype == "F32") {
      tensor.data = Convert<float>(bytes, end - begin);
    } else if (dtype == "F64") {
      tensor.data = Convert<double>(bytes, end - begin);
    } else if (dtype == "I64") {
      tensor.data = Convert<int64_t>(bytes, end - begin);
    } else {
      return MakeError(path, "tensor " + key.str() + " has dtype " + dtype.str());
    }
    tensors[key.str()] = std::move(tensor);
  }
  return tensors;
}

void WriteTensors(const std::string& path, const Tensors& tensors) {
  llvm::json::Object entries;
  std::string bytes;
  for (const auto& [name, tensor] : tensors) {
    const size_t begin = bytes.size();
    bytes += tensor.dtype == "I64" ? Bytes<int64_t>(tensor.data) : Bytes<float>(tensor.data);
    entries[name] = llvm::json::Object{{"dtype", tensor.dtype},
                                       {"shape", tensor.shape},
                                       {"data_offsets", llvm::json::Array{begin, bytes.size()}}};
  }
  std::string header;
  llvm::raw_string_ostream(header) << llvm::json::Value(std::move(entries));
  const uint64_t header_bytes = header.size();
  WriteFile(path, std::string(reinterpret_cast<const char*>(&header_bytes), 8) + header + bytes);
}

llvm::Expected<llvm::json::Object> ReadJson(const std::string& path) {
  ACT_TRY(llvm::json::Value value, llvm::json::parse(ReadFile(path)));
  if (!value.getAsObject()) return MakeError(path, "not a JSON object");
  return std::move(*value.getAsObject());
}

double Norm(const Tensor& tensor) {
  double sum = 0;
  for (const double x : tensor.data) sum += x * x;
  return std::sqrt(sum);
}

double Distance(const Tensor& a, const Tensor& b) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  if (a.data.size() != b.data.size()) return kInfinite;
  double sum = 0;
  for (size_t i = 0; i < a.data.size(); ++i) sum += (a.data[i] - b.data[i]) * (a.data[i] - b.data[i]);
  return std::isfinite(sum) ? std::sqrt(sum) : kInfinite;
}

}  // namespace act::e2e
