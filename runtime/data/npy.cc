#include "runtime/data/npy.h"

#include <llvm/Support/Endian.h>

#include <charconv>
#include <cstring>
#include <optional>

#include "runtime/base/error.h"

namespace act {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kMaxHeaderBytes = 1 << 20;

struct TypeName {
  DType dtype;
  std::string_view name;  // without the byte order
};
constexpr TypeName kTypeNames[] = {{DType::kFloat32, "f4"}, {DType::kInt64, "i8"},  {DType::kInt32, "i4"},
                                   {DType::kUint8, "u1"},   {DType::kBool, "b1"},   {DType::kFloat64, "f8"},
                                   {DType::kFloat16, "f2"}, {DType::kInt8, "i1"},   {DType::kInt16, "i2"},
                                   {DType::kUint16, "u2"},  {DType::kUint32, "u4"}, {DType::kUint64, "u8"}};

// Reads the header, a Python literal. Knows as much of the grammar as NumPy writes.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  // Returns what is wrong, or "".
  std::string Parse(HostView& view) {
    bool have_type = false, have_shape = false;
    if (!Take('{')) return "its header is no dictionary";
    while (!Take('}')) {
      const auto key = String();
      if (!key || !Take(':')) return "its header is damaged";
      if (*key == "descr") {
        const auto descr = String();
        if (!descr) return "its elements are records, not numbers";
        const std::string problem = SetType(*descr, view);
        if (!problem.empty()) return problem;
        have_type = true;
      } else if (*key == "fortran_order") {
        if (Word("True")) return "it is column-major: save numpy.ascontiguousarray of it";
        if (!Word("False")) return "its header is damaged";
      } else if (*key == "shape") {
        if (!Shape(view.dims)) return "its shape is damaged";
        have_shape = true;
      } else {
        return "its header has an unknown key";
      }
      Take(',');
    }
    return have_type && have_shape ? "" : "its header lacks type or shape";
  }

 private:
  void SkipSpace() {
    while (!text_.empty() && (text_.front() == ' ' || text_.front() == '\n')) text_.remove_prefix(1);
  }
  bool Take(char c) {
    SkipSpace();
    if (text_.empty() || text_.front() != c) return false;
    text_.remove_prefix(1);
    return true;
  }
  bool Word(std::string_view word) {
    SkipSpace();
    if (text_.substr(0, word.size()) != word) return false;
    text_.remove_prefix(word.size());
    return true;
  }
  std::optional<std::string_view> String() {
    SkipSpace();
    if (text_.empty() || (text_.front() != '\'' && text_.front() != '"')) return std::nullopt;
    const size_t end = text_.find(text_.front(), 1);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view result = text_.substr(1, end - 1);
    text_.remove_prefix(end + 1);
    return result;
  }
  bool Shape(std::vector<int64_t>& dims) {
    if (!Take('(')) return false;
    while (!Take(')')) {
      SkipSpace();
      int64_t extent = 0;
      const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), extent);
      if (error != std::errc() || extent < 0 || dims.size() >= 64) return false;
      text_.remove_prefix(static_cast<size_t>(end - text_.data()));
      dims.push_back(extent);
      Take(',');
    }
    return true;
  }
  static std::string SetType(std::string_view descr, HostView& view) {
    if (descr.size() < 2) return "its header is damaged";
    if (descr.front() == '>') return "it is big-endian: save array.astype(array.dtype.newbyteorder('<'))";
    for (const TypeName& type : kTypeNames) {
      if (descr.substr(1) != type.name) continue;
      view.dtype = type.dtype;
      return "";
    }
    if (descr == "|O") return "it holds Python objects: save an array of numbers";
    return "its type " + std::string(descr) + " is not supported";
  }

  std::string_view text_;
};

std::string ReadView(std::span<const std::byte> bytes, HostView& view) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.substr(0, 4) == "PK\x03\x04") return "an archive of arrays: save each as .npy, with numpy.save";
  if (text.substr(0, kMagic.size()) != kMagic || text.size() < 12) return "not a NumPy .npy file";
  const int version = std::to_integer<int>(bytes[6]);
  if (version < 1 || version > 3) return "its .npy version " + std::to_string(version) + " is not supported";
  const size_t start = version == 1 ? 10 : 12;
  const size_t length = version == 1 ? llvm::support::endian::read16le(bytes.data() + 8)
                                     : llvm::support::endian::read32le(bytes.data() + 8);
  if (length > kMaxHeaderBytes || length > text.size() - start) return "the file is cut off in its header";
  const std::string problem = HeaderParser(text.substr(start, length)).Parse(view);
  if (!problem.empty()) return problem;
  view.bytes = SaturatingMul(ElementCount(view.dims), ByteSize(view.dtype));
  const auto held = static_cast<int64_t>(text.size() - start - length);
  if (view.bytes != held) {
    return "it holds " + std::to_string(held) + " bytes of data, " + ToString(view) + " needs " +
           std::to_string(view.bytes);
  }
  view.data = bytes.data() + start + length;
  return "";
}

}  // namespace

llvm::Expected<NpyFile> NpyFile::Open(const std::string& path) {
  NpyFile result;
  result.path_ = path;
  ACT_TRY(result.file_, MappedFile::Open(path));
  const std::string problem = ReadView(result.file_->bytes(), result.view_);
  if (!problem.empty()) return MakeError(path, problem);
  return result;
}

llvm::Error WriteNpy(const std::string& path, const HostView& view) {
  std::string descr = "|u1";
  for (const TypeName& type : kTypeNames) {
    if (type.dtype == view.dtype) descr = (ByteSize(view.dtype) == 1 ? "|" : "<") + std::string(type.name);
  }
  std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (";
  for (int64_t extent : view.dims) header += std::to_string(extent) + ",";
  header += "), }";
  // the data begins at a multiple of 64 bytes
  const size_t padded = (10 + header.size() + 1 + 63) / 64 * 64 - 10;
  header.resize(padded - 1, ' ');
  header += '\n';
  char length[2];
  llvm::support::endian::write16le(length, static_cast<uint16_t>(header.size()));

  ACT_TRY(auto file, OutputFile::Create(path));
  const std::string head = std::string(kMagic) + std::string("\x01\x00", 2) + std::string(length, 2) + header;
  ACT_CHECK_OK(file->Write(head.data(), static_cast<int64_t>(head.size())));
  ACT_CHECK_OK(file->Write(view.data, view.bytes));
  return file->Commit();
}

}  // namespace act
