// Codecs from shared libraries: which are loaded, which are refused, and what happens to a codec
// that gives wrong sizes.
#include "runtime/codec/plugin.h"
#include "kernels/site/dereference.h"

#include <gtest/gtest.h>

#include "tests/paths.h"
#include "tests/unit/codec_testing.h"
#include "tests/unit/fused_case.h"

namespace act {
namespace {

// tests/plugins/faulty_codec.c, built with this fault.
std::string Library(const std::string& fault) { return PluginFolder() + "/faulty_" + fault + ".so"; }

std::string LoadError(const std::string& path) {
  llvm::Expected<const act_codec*> loaded = LoadCodecPlugin(path);
  if (!loaded) return llvm::toString(loaded.takeError());
  llvm::Expected<Codec> codec = MakePluginCodec(**loaded, 4, 256);
  return codec ? "" : llvm::toString(codec.takeError());
}

const act_codec& Loaded(const std::string& fault) { return *llvm::cantFail(LoadCodecPlugin(Library(fault))); }

TEST(CodecPlugin, SaysWhatIsWrongWithALibrary) {
  const struct {
    const char *fault, *message;
  } cases[] = {
      {"none", ""},
      {"absent", "cannot be loaded"},
      {"abi", "of ABI version 77, this program takes version 1"},
      {"unknown_abi", "does not support ABI version 1"},
      {"name", "name is not"},
      {"no_function", "leaves out a function"},
      {"too_large", "bytes"},
      {"metadata_past_end", "more metadata than its form says"},
      {"payload_past_end", "more payload than its form says"},
      {"unwritten", "leaves bytes of its code unwritten"},
      {"forgets", "does not repeat itself"},
      {"reads_past_end", "reads more than encode writes"},
      {"decodes_past_end", "writes past the elements"},
  };
  for (const auto& c : cases) {
    const std::string error = LoadError(Library(c.fault));
    if (*c.message == 0)
      EXPECT_EQ(error, "") << c.fault;
    else
      EXPECT_NE(error.find(c.message), std::string::npos) << c.fault << ": '" << error << "'";
  }
  EXPECT_NE(LoadError("/lib/x86_64-linux-gnu/libm.so.6").find("act_codec_plugin"), std::string::npos);
}

TEST(CodecPlugin, SizesAreThoseOfItsForm) {
  const Codec codec = llvm::cantFail(MakePluginCodec(Loaded("none"), 4, 256));
  EXPECT_EQ(ToString(codec), "plugin faulty4,g256");
  EXPECT_DOUBLE_EQ(BitsPerElement(codec), 8 + 32. / 256);
  // Two groups of 4 bytes of metadata, then 300 of payload, each up to a multiple of 16.
  EXPECT_EQ(CodeType(codec, {Dim::Batch(), Dim(300)})->dims[0], Dim(16 + 304) * Dim::Batch());
  EXPECT_EQ(CheckCodec(codec), std::nullopt);
  EXPECT_FALSE(codec.HoldsMask());
}

// Encodes and decodes 3 samples of 700 elements in a fused loop.
std::string RunLoop(const Codec& codec, const std::string& kernel) {
  const Dims space = {Dim::Batch(), Dim(700)};
  Program encode;
  encode.space = space;
  encode.inputs = {{}};
  encode.outputs = {{OutputKind::kEncode, 0, codec, 1}};
  FusedCase c(encode, {{DType::kFloat32, space}}, {{}}, 3);
  std::fill_n(c.In(0), 2100, 1.5f);
  Program decode;
  decode.space = space;
  decode.inputs = {{codec, 1, false}};
  decode.outputs = {{OutputKind::kStore, 0, {}, 0}};
  FusedCase d(decode, {{}}, {{DType::kFloat32, space}}, 3);
  try {
    c.Run(kernel);
    std::memcpy(d.input_views[0].as<void>(), c.output_views[0].as<void>(),
                static_cast<size_t>(d.input_views[0].bytes));
    d.Run(kernel);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  for (int64_t i = 0; i < 2100; ++i) EXPECT_EQ(d.Out(0)[i], 1.5f) << i;
  return "";
}

TEST(CodecPlugin, RunsInALoop) {
  const Codec codec = llvm::cantFail(MakePluginCodec(Loaded("none"), 4, 256));
  EXPECT_EQ(RunLoop(codec, "fused"), "");
  EXPECT_EQ(RunLoop(codec, "reference.fused"), "");
}

TEST(CodecPlugin, IsRefusedWhereItsLibraryIsNotLoaded) {
  Codec codec = llvm::cantFail(MakePluginCodec(Loaded("none"), 4, 256));
  auto unbound = std::make_shared<PluginCodec>(*codec.plugin);
  unbound->functions = nullptr;
  codec.plugin = unbound;
  for (const char* kernel : {"fused", "reference.fused"})
    EXPECT_NE(RunLoop(codec, kernel).find("its library is not loaded"), std::string::npos) << kernel;
}

TEST(CodecPlugin, CheckingFindsALieThatTheTrialDidNotSee) {
  Codec codec = llvm::cantFail(MakePluginCodec(Loaded("late"), 4, 64));
  auto checked = std::make_shared<PluginCodec>(*codec.plugin);
  checked->fault = std::make_shared<PluginFault>();
  codec.plugin = checked;
  EXPECT_EQ(RunLoop(codec, "fused"), "codec 'faulty': encode writes more payload than its form says");
}

}  // namespace
}  // namespace act
