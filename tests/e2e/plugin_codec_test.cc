// Codecs from shared libraries, as users have them: the example, built out of tree against an
// installed act, and faulty libraries.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/e2e/golden_case.h"
#include "tests/e2e/process.h"
#include "tests/e2e/refusal.h"
#include "tests/e2e/tensors.h"
#include "tests/paths.h"

namespace act::e2e {
namespace {

std::string Faulty(const std::string& fault) { return PluginFolder() + "/faulty_" + fault + ".so"; }

class PluginCodec : public testing::Test {
 protected:
  static std::string Model() { return GoldenFolder() + "/resnet_basic/model.onnx"; }
  std::vector<std::string> Compile(const std::string& library,
                                   const std::vector<std::string>& more = {}) const {
    std::vector<std::string> args = {ToolPath("actc"),     Model(), "-O",   "L2",
                                     "--group-size=64",    "-o",    plan(), "--report=none",
                                     "--plugin=" + library};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  std::vector<std::string> Run(const std::vector<std::string>& more) const {
    std::vector<std::string> args = {ToolPath("actrun"), plan(), "--threads=1", "--steps=1", "--batch=4"};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  std::string plan() const { return scratch_ / "plan.bin"; }

  // examples/plugin_codec, built against what `cmake --install` installs.
  std::string BuildExample() const {
    const std::string prefix = scratch_ / "installed", build = scratch_ / "build";
    ExpectDone({ACT_CMAKE, "--install", BuildFolder(), "--prefix", prefix});
    ExpectDone({ACT_CMAKE, "-S", SourceFolder() + "/examples/plugin_codec", "-B", build,
                "-DCMAKE_PREFIX_PATH=" + prefix, "-DCMAKE_BUILD_TYPE=Release"});
    ExpectDone({ACT_CMAKE, "--build", build});
    return build + "/libblock_float.so";
  }

  ScratchFolder scratch_;
};

TEST_F(PluginCodec, TheExampleIsBuiltOutOfTreeAndTrains) {
  const std::string library = BuildExample();
  const std::string explained = ExpectDone(Compile(library, {"--explain"}));
  EXPECT_NE(explained.find("plugin block-float4,g64"), std::string::npos) << explained;
  // The installed tools find what they are linked to.
  for (const char* tool : {"actc", "actrun", "actplan"})
    ExpectDone({scratch_ / "installed" + "/bin/" + tool, "--version"});
  const std::string inputs = GoldenFolder() + "/resnet_basic/inputs.safetensors";
  const std::string report = ExpectDone(Run({"--plugin=" + library, "--inputs=" + inputs, "--check-memory",
                                             "--dump-step=" + (scratch_ / "step.safetensors")}));
  EXPECT_NE(report.find("planned"), std::string::npos);
  // The forward pass reads no code, so its loss is exact. Gradients are close to the exact ones.
  ExpectDone({ToolPath("actc"), Model(), "-O", "L0", "-o", scratch_ / "exact.bin", "--report=none"});
  ExpectDone({ToolPath("actrun"), scratch_ / "exact.bin", "--threads=1", "--steps=1", "--batch=4",
              "--inputs=" + inputs, "--dump-step=" + (scratch_ / "exact.safetensors")});
  const Tensors coded = llvm::cantFail(ReadTensors(scratch_ / "step.safetensors"));
  const Tensors exact = llvm::cantFail(ReadTensors(scratch_ / "exact.safetensors"));
  double error = 0, norm = 0;
  for (const auto& [name, tensor] : exact) {
    if (name.rfind("grad.", 0) != 0) continue;
    error += std::pow(Distance(tensor, coded.at(name)), 2);
    norm += std::pow(Norm(tensor), 2);
  }
  EXPECT_EQ(exact.at("loss").data, coded.at("loss").data);
  EXPECT_GT(error, 0);           // the codec was used
  EXPECT_LT(error / norm, .25);  // 4 bits; ActNN's 2 bits have .05 to .15 by variance alone
}

TEST_F(PluginCodec, AWrongLibraryIsNamedWithWhatIsWrong) {
  ExpectRefused(Compile(scratch_ / "absent.so"), {"absent.so", "cannot be loaded"});
  ExpectRefused(Compile(Faulty("abi")), {"ABI version 77"});
  ExpectRefused(Compile(Faulty("payload_past_end")), {"faulty", "more payload"});
  EXPECT_FALSE(Exists(plan()));
}

TEST_F(PluginCodec, ARunNeedsThePlansCodecInItsVersion) {
  ExpectDone(Compile(Faulty("none")));
  ExpectDone(Run({"--plugin=" + Faulty("none")}));
  ExpectRefused(Run({}), {"plan.bin", "codec 'faulty'", "no --plugin has it"});
  ExpectRefused(Run({"--plugin=" + Faulty("other_version")}),
                {"compiled with version 1, --plugin has version 2"});
  ExpectRefused(Run({"--plugin=" + Faulty("other_sizes")}), {"other sizes"});
  ExpectDone({ToolPath("actplan"), "show", plan()});  // sizes are in the plan
}

TEST_F(PluginCodec, CheckingEndsARunWhoseCodecLiesLater) {
  ExpectDone(Compile(Faulty("late")));
  ExpectRefused(Run({"--plugin=" + Faulty("late"), "--seed=5", "--check-memory"}),
                {"faulty", "more payload"});
}

}  // namespace
}  // namespace act::e2e
