// libact_cuda.so on a machine without a card: what it says of a driver that is missing or unusable, and
// what NVRTC makes of device code. What runs on a card is not tested here.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "runtime/base/error.h"
#include "tests/paths.h"
#include "tests/unit/card_compiler.h"

namespace act::cuda {
namespace {

using act::testing::CheckKernel;
using act::testing::CheckOnCards;
using act::testing::HasNvidia;
using act::testing::kGateCards;
using act::testing::ResourcesIn;

class Nvidia : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!HasNvidia()) GTEST_SKIP() << "libact_cuda.so was not built: no CUDA toolkit";
  }

  static std::unique_ptr<Toolkit> Card(const std::string& name) { return llvm::cantFail(LoadCard(name)); }
  static std::string ErrorOfCard(const std::string& name) {
    auto card = LoadCard(name);
    return card ? "" : llvm::toString(card.takeError());
  }

  // Of the machine's card 0, as actrun prints it.
  static void ExpectRefusal(const std::string& in_error, const std::string& in_hint) {
    auto toolkit = LoadToolkit("cuda");
    ASSERT_FALSE(toolkit);
    llvm::handleAllErrors(toolkit.takeError(), [&](const ActError& error) {
      EXPECT_EQ(error.place(), "--device=cuda");
      EXPECT_NE(error.what().find(in_error), std::string::npos) << error.what();
      EXPECT_NE(error.hint().find(in_hint), std::string::npos) << error.hint();
      EXPECT_EQ(error.what().find('\n'), std::string::npos) << error.what();
    });
  }
};

// ---- Opening

TEST_F(Nvidia, SaysThatThereIsNoDriver) {
  if (void* driver = dlopen("libcuda.so.1", RTLD_NOW)) {
    dlclose(driver);
    GTEST_SKIP() << "this machine has a driver";
  }
  ExpectRefusal("this machine has no NVIDIA driver", "install NVIDIA's driver for CUDA 13.0");
}

// The loader finds a library that has been loaded already by its name: libcuda.so.1.
TEST_F(Nvidia, SaysWhyADriverCannotBeUsed) {
  struct Case {
    const char *driver, *error, *hint;
  };
  for (const Case& c :
       {Case{"no_version", "is no driver of NVIDIA's", "install"},
        Case{"too_old", "it has CUDA 12.8, and this program needs 13.0", "install"},
        Case{"no_card", "no card that NVIDIA's driver can use", "CUDA_VISIBLE_DEVICES"},
        Case{"does_not_start", "cuInit: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (system has", "nvidia-smi"},
        Case{"lacks_functions", "NVIDIA's driver has no function cu", "install"}}) {
    if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD)) GTEST_SKIP() << "a driver is loaded";
    // In a process of its own, which ends at once: NVIDIA's libraries keep what they have found until
    // the end.
    const auto refuse = [&c] {
      void* driver = dlopen((PluginFolder() + "/unusable_driver_" + c.driver + ".so").c_str(), RTLD_NOW);
      if (driver) ExpectRefusal(c.error, c.hint);
      std::_Exit(driver && !HasFailure() ? 0 : 1);
    };
    EXPECT_EXIT(refuse(), ::testing::ExitedWithCode(0), "") << c.driver;
  }
}

TEST_F(Nvidia, SaysWhichCardsItKnows) {
  const std::string error = ErrorOfCard("h2000");
  EXPECT_NE(error.find("there is no card and no file h2000; known cards: a100, b200, h100, h200, l4"),
            std::string::npos)
      << error;
}

TEST_F(Nvidia, SaysWhatADescriptionLacks) {
  const std::string path = ::testing::TempDir() + "/card.json";
  std::ofstream(path) << R"({"deviceName": "A card", "deviceVer": 900})";
  const std::string error = ErrorOfCard(path);
  EXPECT_NE(error.find("card.json does not describe a card: it has no number \"multiProcessorCount\""),
            std::string::npos)
      << error;
}

TEST_F(Nvidia, ADescribedCardTellsItsPropertiesAndRunsNothing) {
  const auto toolkit = Card("h200");
  Driver& driver = toolkit->driver();
  EXPECT_EQ(driver.card().name, "NVIDIA H200");
  EXPECT_EQ(driver.card().compute_capability, 90);
  EXPECT_EQ(driver.card().multiprocessors, 132);
  Module* module = nullptr;
  EXPECT_EQ(driver.Load({}, &module), "NVIDIA H200 is only described: nothing can run on it");
  // Kernels may have tables in its memory.
  std::byte* address = nullptr;
  const float one = 1;
  ASSERT_EQ(driver.Allocate(sizeof one, &address), "");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(address) % 256, 0u);
  EXPECT_EQ(driver.CopyToDevice(nullptr, address, reinterpret_cast<const std::byte*>(&one), sizeof one), "");
  driver.Free(address);
}

// ---- Compiling

const char kScale[] = R"(#include "kernels/cuda/source/device.h"
struct Parameters { const float* x; float* y; int64_t count; };
ACT_KERNEL(scale, 256, Parameters, p) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < p.count) Store(p.y + i, 2 * Load(p.x + i));
}
)";

TEST_F(Nvidia, TheKeyHasArchitectureVersionAndFlags) {
  const std::string h200 = Card("h200")->compiler().Key(), a100 = Card("a100")->compiler().Key();
  for (const char* part : {"NVRTC 13.", "sm_90a", "-fmad=false", "-ftz=false", "-prec-div=true", "headers"})
    EXPECT_NE(h200.find(part), std::string::npos) << part << " in " << h200;
  EXPECT_NE(a100.find("sm_80 "), std::string::npos) << a100;
}

TEST_F(Nvidia, CompilesForEveryCard) {
  for (const char* card : {"a100", "l4", "h100", "h200", "b200"}) {
    const auto toolkit = Card(card);
    std::vector<std::byte> image;
    std::string log;
    EXPECT_EQ(toolkit->compiler().Compile({"scale", kScale}, EmbeddedHeaders(), &image, &log), "") << log;
    ASSERT_GT(image.size(), 4u);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(image.data()), 4),
              "\x7f"
              "ELF")
        << card;
    ASSERT_EQ(ResourcesIn(log).size(), 1u) << log;
    EXPECT_GT(ResourcesIn(log)[0].registers, 0) << log;
  }
}

TEST_F(Nvidia, AnErrorOfTheSourceIsNamedWithItsLine) {
  const auto toolkit = Card("h200");
  std::vector<std::byte> image;
  std::string log;
  const Status status = toolkit->compiler().Compile(
      {"wrong", "#include \"kernels/cuda/source/device.h\"\nACT_DEVICE int f() { return missing; }\n"},
      EmbeddedHeaders(), &image, &log);
  EXPECT_NE(status.find("wrong.cu(2): error"), std::string::npos) << status;
}

std::string TextOf(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(SourceFolder() + "/" + path).rdbuf();
  return text.str();
}

// Compiles for all cards of the gate without a warning. These kernels call what a test wants called: they may
// have a stack.
void ExpectToCompile(const KernelSource& source) {
  for (const char* card : kGateCards) {
    const auto toolkit = llvm::cantFail(LoadCard(card));
    std::string log;
    std::vector<std::byte> image;
    EXPECT_EQ(toolkit->compiler().Compile(source, EmbeddedHeaders(), &image, &log), "") << card;
    EXPECT_EQ(log.find("warning"), std::string::npos) << card << ": " << log;
  }
}

// Also with the few standard headers that NVRTC gets from us.
TEST_F(Nvidia, CompilesAllOfKernelsMath) {
  ExpectToCompile({"math_on_device", TextOf("tests/unit/math_on_device.cu")});
}

TEST_F(Nvidia, HasAllThatDeviceCodeIsWrittenWith) {
  const char source[] = R"(#include "kernels/cuda/source/device.h"
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
struct Parameters { const float* x; float* y; uint32_t* count; uint64_t* word; uint4* vectors; };
ACT_DEVICE float Twice(float x) { return 2 * x; }
ACT_KERNEL(everything, 128, Parameters, p) {
  ACT_SHARED(float, staged, 128);
  unsigned char* dynamic = SharedBytes();
  const int i = threadIdx.x + blockIdx.x * blockDim.x + gridDim.x * (threadIdx.y + blockIdx.y + blockIdx.z);
  staged[threadIdx.x] = Load(p.x + i);
  dynamic[threadIdx.x] = 1;
  SyncThreads();
  float v = staged[127 - threadIdx.x] + dynamic[127 - threadIdx.x];
  SyncWarp();
  SyncWarp(0xffffffffu);
  v += ShuffleXor(0xffffffffu, v, 1) + ShuffleDown(0xffffffffu, v, 2) + Shuffle(0xffffffffu, v, 3);
  uint32_t bits = Ballot(0xffffffffu, v > 0) + ReduceMin(0xffffffffu, FloatBits(v));
  bits += ReduceMax(0xffffffffu, bits) + ReduceAdd(0xffffffffu, bits);
  bits += AtomicAdd(p.count, 1u) + AtomicMin(p.count, bits) + AtomicMax(p.count, bits);
  const uint64_t word = AtomicMin(p.word, uint64_t{bits}) + AtomicMax(p.word, uint64_t{bits});
  v = MulAdd(v, Twice(v), FromBits(bits)) + sqrtf(v) + floorf(v) + rintf(v) + fabsf(v) + fmaf(v, v, v);
  v += logf(v) + sinf(v) + cosf(v) + powf(v, 1.5f) + std::floor(v) + (std::isnan(v) ? 1 : 0);
  const double wide = sqrt(static_cast<double>(v)) + std::fabs(static_cast<double>(word));
  Store(p.y + i, static_cast<float>(wide) + std::numeric_limits<float>::infinity());
  uint4 four = Load(p.vectors + i);
  four.x += std::is_same_v<int, std::int32_t> ? 1u : 0u;
  Store(p.vectors + i, four);
  const float4 floats = Load(reinterpret_cast<const float4*>(p.x) + i);
  const float2 halves = make_float2(floats.x, floats.y);
  const uint2 pair = make_uint2(1, 2);
  Store(reinterpret_cast<float2*>(p.y) + i, halves);
  Store(reinterpret_cast<uint2*>(p.count) + i, pair);
}
)";
  ExpectToCompile({"everything", source});
}

// The gate finds what it is for.
TEST_F(Nvidia, TheGateFindsSpillsStackRegistersAndWarnings) {
  const auto toolkit = Card("h200");
  const std::string head = "#include \"kernels/cuda/source/device.h\"\nstruct P { float* x; int n; };\n";
  const auto faults = [&](const std::string& body) {
    return CheckKernel(*toolkit, {"k", head + body}).faults;
  };
  EXPECT_EQ(CheckOnCards({"scale", kScale}).faults, "");
  EXPECT_LT(CheckOnCards({"scale", kScale}).registers, 32);
  EXPECT_NE(faults("ACT_KERNEL(k, 256, P, p) { int count[32] = {};"
                   " for (int i = 0; i < p.n; ++i) ++count[static_cast<int>(Load(p.x + i))];"
                   " for (int i = 0; i < 32; ++i) Store(p.x + i, count[i]); }")
                .find("bytes of stack"),
            std::string::npos);
  const std::string wide =
      " { float a[120]; for (int i = 0; i < 120; ++i) a[i] = Load(p.x + i * p.n);"
      " SyncThreads(); for (int i = 0; i < 120; ++i) Store(p.x + i, a[119 - i] / a[i]); }";
  EXPECT_NE(faults("ACT_KERNEL(k, 1024, P, p)" + wide).find("bytes spilled"), std::string::npos);
  EXPECT_GT(CheckKernel(*toolkit, {"k", head + "ACT_KERNEL(k, 128, P, p)" + wide}).registers, 64);
  EXPECT_NE(faults("ACT_KERNEL(k, 128, P, p) { int unused; }").find("warning"), std::string::npos);
}

}  // namespace
}  // namespace act::cuda
