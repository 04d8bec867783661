#include "tests/paths.h"

namespace act {

std::string SourceFolder() { return ACT_SOURCE_DIR; }
std::string GoldenFolder() { return SourceFolder() + "/tests/golden"; }
std::string TestDataFolder() { return SourceFolder() + "/tests/data"; }
std::string ModelsFolder() { return SourceFolder() + "/models"; }

std::string BuildFolder() { return ACT_BUILD_DIR; }
std::string BinFolder() { return BuildFolder() + "/bin"; }
std::string PluginFolder() { return BuildFolder() + "/tests/plugins"; }
std::string FakeCudaPath() { return BinFolder() + "/libact_fake_cuda.so"; }
std::string FailCallPath() { return BuildFolder() + "/tests/faults/fail_call.so"; }

}  // namespace act
