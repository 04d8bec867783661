#include "runtime/plan/file_kind.h"

#include <string_view>

namespace act {
namespace {

// ONNX's ModelProto: field 1, the IR version, comes first (08 then a small number), and fields 2 to
// 8, or 14 and 20, follow: producer, domain, graph, opset, metadata.
bool LooksLikeOnnx(std::string_view text) {
  if (text.size() < 4 || text[0] != 0x08 || text[1] < 3 || text[1] > 63) return false;
  const auto tag = static_cast<unsigned char>(text[2]);
  const int field = tag >> 3;
  return field >= 2 && field <= 14;
}

// An 8-byte little-endian length of a JSON header, and then the JSON.
bool LooksLikeSafetensors(std::string_view text) {
  return text.size() > 10 && text.substr(5, 3) == std::string_view("\0\0\0", 3) && text[8] == '{';
}

}  // namespace

FileKind GuessFileKind(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto starts_with = [text](std::string_view prefix) {
    return text.substr(0, prefix.size()) == prefix;
  };
  if (text.empty()) return {"an empty file", ""};
  if (LooksLikeOnnx(text)) return {"an ONNX model", ": compile it with actc"};
  if (LooksLikeSafetensors(text)) return {"a safetensors file", ""};
  if (starts_with("PK\x03\x04")) return {"a zip archive (a PyTorch checkpoint?)", ": export an ONNX model"};
  if (starts_with("\x93NUMPY")) return {"a NumPy array", ""};
  if (starts_with("\x89HDF")) return {"an HDF5 file", ""};
  if (starts_with("{") || starts_with("[")) return {"a text file (JSON?)", ""};
  return {"a file of another kind", ""};
}

}  // namespace act
