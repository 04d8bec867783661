// Raw bytes as a checkpoint of ONNX Runtime. What opens holds the bytes that its types say.
#include <cstring>
#include <string>

#include "compiler/import/file/ort_checkpoint.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/require.h"
#include "tests/fuzz/scratch_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const act::fuzz::ScratchFile scratch("checkpoint");
  scratch.Write({reinterpret_cast<const char*>(data), size});
  auto checkpoint = act::onnx_import::ReadOrtCheckpoint(scratch.path());
  if (!checkpoint) {
    llvm::consumeError(checkpoint.takeError());
    return 0;
  }
  for (const auto& [name, tensor] : *checkpoint) {
    act::fuzz::Require(!name.empty(), "a tensor has no name");
    act::fuzz::Require(tensor.data.bytes == tensor.type.Bytes().fixed,
                       "a tensor has other bytes than its type");
    const std::string read(reinterpret_cast<const char*>(tensor.data.data),
                           static_cast<size_t>(tensor.data.bytes));
    act::fuzz::Require(read.size() <= size, "a tensor has more bytes than the file");
  }
  return 0;
}
