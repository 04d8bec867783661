// The convolutions and products of the fake card against their definitions, and what the environment can
// ask of it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <vector>

#include "tests/paths.h"
#include "tests/unit/fake_cuda_source.h"
#include "tests/unit/temporary_folder.h"

namespace act {
namespace {

using cuda::ConvolutionDirection;
using cuda::ConvolutionProblem;
using cuda::ProductProblem;
using Dims = std::vector<int64_t>;

// Sets a variable of the environment for a test.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) { setenv(name, value.c_str(), 1); }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

// Small integers: every sum is exact in float, so that results are equal or wrong.
std::vector<float> Integers(int64_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& v : values) v = static_cast<float>(static_cast<int>(engine() % 7) - 3);
  return values;
}

// Runs a call on operands {a, b, c, d}, of which an empty one is left out. They are replaced by what is
// there after it.
std::string RunCall(TestCard& card, cuda::LibraryCall& call, std::vector<float>* const operands[4]) {
  std::vector<std::unique_ptr<CardArray>> arrays(4);
  std::byte* addresses[4] = {};
  for (size_t i = 0; i < 4; ++i) {
    if (!operands[i] || operands[i]->empty()) continue;
    arrays[i] = std::make_unique<CardArray>(card, static_cast<int64_t>(operands[i]->size()));
    arrays[i]->Set(*operands[i]);
    addresses[i] = arrays[i]->as<std::byte>();
  }
  CardArray workspace(card, (call.workspace_bytes() + 3) / 4);
  EXPECT_EQ(call.Enqueue(card.context().stream, addresses, workspace.as<std::byte>()), "");
  std::string error = card.Wait();
  for (size_t i = 0; i < 4; ++i)
    if (arrays[i]) *operands[i] = arrays[i]->Get<float>();
  return error;
}

// ---- Convolutions

// Calls f(element of x, of w, of y) for each product of the definition: y[n,o,m] = sum x[n, o s + t d -
// p, c] w[m,t,c].
void ForEachProduct(const ConvolutionProblem& p, const std::function<void(int64_t, int64_t, int64_t)>& f) {
  const size_t axes = p.x.size() - 2;
  const int64_t outputs = p.y.back() / p.groups, inputs = p.x.back() / p.groups;
  const auto count = [axes](const Dims& dims) {
    int64_t pixels = 1;
    for (size_t i = 0; i < axes; ++i) pixels *= dims[1 + i];
    return pixels;
  };
  const auto position = [axes](const Dims& dims, int64_t pixel, size_t axis) {
    for (size_t i = axes - 1; i > axis; --i) pixel /= dims[1 + i];
    return pixel % dims[1 + axis];
  };
  for (int64_t n = 0; n < p.x[0]; ++n)
    for (int64_t o = 0; o < count(p.y); ++o)
      for (int64_t t = 0; t < count(p.w); ++t) {
        int64_t in = 0;
        bool inside = true;
        for (size_t a = 0; a < axes; ++a) {
          const int64_t at =
              position(p.y, o, a) * p.strides[a] + position(p.w, t, a) * p.dilations[a] - p.pads_begin[a];
          inside = inside && at >= 0 && at < p.x[1 + a];
          in = in * p.x[1 + a] + at;
        }
        if (!inside) continue;
        for (int64_t m = 0; m < p.y.back(); ++m)
          for (int64_t c = 0; c < inputs; ++c)
            f((n * count(p.x) + in) * p.x.back() + m / outputs * inputs + c,
              (m * count(p.w) + t) * inputs + c, (n * count(p.y) + o) * p.y.back() + m);
      }
}

ConvolutionProblem Problem(Dims x, const Dims& window, int64_t channels, int64_t groups, Dims strides,
                           Dims dilations, Dims pads_begin, Dims pads_end) {
  ConvolutionProblem p;
  p.w = {channels};
  p.y = {x[0]};
  for (size_t i = 0; i < window.size(); ++i) {
    p.w.push_back(window[i]);
    p.y.push_back((x[1 + i] + pads_begin[i] + pads_end[i] - dilations[i] * (window[i] - 1) - 1) / strides[i] +
                  1);
  }
  p.w.push_back(x.back() / groups);
  p.y.push_back(channels);
  p.x = std::move(x);
  p.strides = std::move(strides);
  p.dilations = std::move(dilations);
  p.pads_begin = std::move(pads_begin);
  p.pads_end = std::move(pads_end);
  p.groups = groups;
  return p;
}

TEST(FakeCudaLibraries, ConvolutionsFollowTheirDefinition) {
  TestCard& card = TheTestCard();
  const ConvolutionProblem problems[] = {
      Problem({2, 9, 3}, {4}, 5, 1, {2}, {1}, {1}, {3}),
      Problem({2, 6, 7, 4}, {3, 2}, 6, 2, {1, 2}, {2, 1}, {2, 0}, {1, 1}),
      Problem({1, 5, 5, 6}, {1, 1}, 6, 6, {1, 1}, {1, 1}, {0, 0}, {0, 0}),
      Problem({2, 4, 5, 3, 2}, {2, 3, 1}, 3, 1, {1, 2, 1}, {1, 1, 2}, {0, 1, 0}, {1, 1, 0}),
      Problem({1, 1, 1, 1}, {3, 3}, 1, 1, {1, 1}, {1, 1}, {1, 1}, {1, 1}),
  };
  for (ConvolutionProblem p : problems) {
    const std::vector<float> x = Integers(ElementCount(p.x), 1), w = Integers(ElementCount(p.w), 2),
                             y = Integers(ElementCount(p.y), 3);
    std::vector<float> values[3] = {x, w, y}, sums[3];
    for (size_t i = 0; i < 3; ++i) sums[i].resize(values[i].size());
    ForEachProduct(p, [&](int64_t in, int64_t weight, int64_t out) {
      const auto a = static_cast<size_t>(in), b = static_cast<size_t>(weight), c = static_cast<size_t>(out);
      sums[2][c] += x[a] * w[b];
      sums[0][a] += y[c] * w[b];
      sums[1][b] += x[a] * y[c];
    });
    const size_t written[] = {2, 0, 1};  // by direction
    for (const auto direction : {ConvolutionDirection::kForward, ConvolutionDirection::kInputGradient,
                                 ConvolutionDirection::kWeightGradient}) {
      p.direction = direction;
      std::string why;
      const auto call = card.toolkit().convolutions().Choose(p, 0, &why);
      ASSERT_TRUE(call) << why;
      EXPECT_EQ(call->engine(), "fake");
      std::vector<float> operands[3] = {x, w, y};
      std::vector<float>* const pointers[4] = {&operands[0], &operands[1], &operands[2], nullptr};
      ASSERT_EQ(RunCall(card, *call, pointers), "");
      const size_t result = written[static_cast<size_t>(direction)];
      EXPECT_EQ(operands[result], sums[result])
          << "operand " << result << " of " << p.x.size() - 2 << " axes";
    }
  }
}

TEST(FakeCudaLibraries, ConvolutionsRefuseWhatDoesNotFit) {
  std::string why;
  ConvolutionProblem p = Problem({2, 9, 3}, {4}, 5, 1, {2}, {1}, {1}, {3});
  p.y[1] += 1;
  EXPECT_FALSE(TheTestCard().toolkit().convolutions().Choose(p, 0, &why));
  EXPECT_EQ(why, "y has another size on spatial axis 0");
}

// ---- Products

TEST(FakeCudaLibraries, ProductsFollowTheirDefinition) {
  TestCard& card = TheTestCard();
  for (const bool trans_a : {false, true})
    for (const bool trans_b : {false, true})
      for (const auto& [bias, accumulates] : {std::pair(false, false), {true, false}, {false, true}}) {
        ProductProblem p{.batch = 3, .m = 4, .n = 5, .k = 6, .trans_a = trans_a, .trans_b = trans_b};
        p.lead_a = (trans_a ? p.m : p.k) + 1;
        p.lead_b = trans_b ? p.k : p.n;
        p.lead_c = p.n + 2;
        p.stride_a = 50;
        p.stride_b = 0;  // the same for all
        p.stride_c = 40;
        p.has_bias = bias;
        p.accumulates = accumulates;
        std::vector<float> a = Integers(150, 1), b = Integers(30, 2), c(120, -99),
                           d = Integers(bias ? 5 : 0, 3);
        std::vector<float> expected = c;
        for (int64_t batch = 0; batch < 3; ++batch)
          for (int64_t i = 0; i < p.m; ++i)
            for (int64_t j = 0; j < p.n; ++j) {
              float& y = expected[static_cast<size_t>(batch * 40 + i * p.lead_c + j)];
              float sum = bias ? d[static_cast<size_t>(j)] : accumulates ? y : 0;
              for (int64_t k = 0; k < p.k; ++k)
                sum += a[static_cast<size_t>(batch * 50 + (trans_a ? k * p.lead_a + i : i * p.lead_a + k))] *
                       b[static_cast<size_t>(trans_b ? j * p.lead_b + k : k * p.lead_b + j)];
              y = sum;
            }
        std::string why;
        const auto call = card.toolkit().products().Choose(p, 0, &why);
        ASSERT_TRUE(call) << why;
        std::vector<float>* const pointers[4] = {&a, &b, &c, &d};
        ASSERT_EQ(RunCall(card, *call, pointers), "");
        EXPECT_EQ(c, expected) << trans_a << trans_b << bias << accumulates;
      }
}

TEST(FakeCudaLibraries, OperandsAreChecked) {
  TestCard& card = TheTestCard();
  std::string why;
  const ProductProblem p{.m = 4, .n = 4, .k = 4, .lead_a = 4, .lead_b = 4, .lead_c = 4};
  const auto call = card.toolkit().products().Choose(p, 0, &why);
  ASSERT_TRUE(call) << why;
  CardArray a(card, 16), b(card, 15), c(card, 20);
  std::byte* const small[4] = {a.as<std::byte>(), b.as<std::byte>(), c.as<std::byte>(), nullptr};
  EXPECT_EQ(call->Enqueue(card.context().stream, small, nullptr), "");
  EXPECT_SUBSTRING("product, operand 1: byte 0 of an allocation of 60 bytes", card.Wait());
  std::byte* const shifted[4] = {a.as<std::byte>(), a.as<std::byte>(), c.as<std::byte>() + 4, nullptr};
  EXPECT_EQ(call->Enqueue(card.context().stream, shifted, nullptr), "");
  EXPECT_SUBSTRING("product, operand 2: not aligned to 16 bytes", card.Wait());
}

TEST(FakeCudaLibraries, AWorkspaceIsNeededWhereTheEnvironmentSaysSo) {
  const Variable workspace("ACT_FAKE_LIBRARY_WORKSPACE", "4096");
  TestCard card;
  std::string why;
  const ProductProblem p{.m = 4, .n = 4, .k = 4, .lead_a = 4, .lead_b = 4, .lead_c = 4};
  EXPECT_FALSE(card.toolkit().products().Choose(p, 4095, &why));
  EXPECT_SUBSTRING("needs 4096 bytes of workspace, of at most 4095", why);
  const auto call = card.toolkit().products().Choose(p, 4096, &why);
  ASSERT_TRUE(call);
  EXPECT_EQ(call->workspace_bytes(), 4096);
  CardArray a(card, 16), small(card, 1000);
  std::byte* const operands[4] = {a.as<std::byte>(), a.as<std::byte>(), a.as<std::byte>(), nullptr};
  EXPECT_EQ(call->Enqueue(card.context().stream, operands, small.as<std::byte>()), "");
  EXPECT_SUBSTRING("product, workspace: byte 0 of an allocation of 4000 bytes", card.Wait());
}

// ---- The compiler

// Kernels that are compiled together may have names in common, of functions and of types. One that is wrong
// leaves the others as they are.
TEST(FakeCudaCompiler, KernelsOfOneUnitDoNotMeet) {
  const testing::TemporaryFolder folder;
  const Variable cache("ACT_FAKE_CACHE", folder / "cache");
  TestCard card;
  CardArray y(card, 3);
  std::vector<const cuda::CompiledKernel*> kernels;
  const auto request = [&](const std::string& name, const std::string& factor) {
    kernels.push_back(card.cache().Request(SourceOf(
        name, "Store(p.y + p.count, Factor());",
        "namespace { constexpr float kFactor = " + factor + "; }\nfloat Factor() { return kFactor; }\n")));
  };
  for (const char* factor : {"1", "2", "4"}) request("times" + std::string(factor), factor);
  ASSERT_EQ(card.cache().CompileAll(), "");
  for (size_t i = 0; i < kernels.size(); ++i) {
    const Pieces p = {nullptr, y.as<float>(), nullptr, static_cast<int64_t>(i)};
    EXPECT_EQ(cuda::Launch(card.context(), *kernels[i], 1, 1, p, 0), "");
  }
  EXPECT_EQ(card.Wait(), "");
  EXPECT_EQ(y.Get<float>(), (std::vector<float>{1, 2, 4}));
  // It was one unit: their images are one file.
  for (const auto& file : std::filesystem::directory_iterator(folder / "cache"))
    if (file.path().extension() == ".so") {
      EXPECT_EQ(file.hard_link_count(), 3u) << file.path();
    }

  request("times8", "8");
  request("wrong", "no_such_name");
  const std::string error = card.cache().CompileAll();
  EXPECT_SUBSTRING("kernel wrong: the host's compiler refuses its source", error);
  EXPECT_SUBSTRING("no_such_name", error);
  int images = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder / "cache"))
    images += file.path().extension() == ".so";
  EXPECT_EQ(images, 4);
}

// ---- Faults of a machine

TEST(FakeCudaMachine, HasTheFaultsThatTheEnvironmentAsksFor) {
  void* library = dlopen(FakeCudaPath().c_str(), RTLD_NOW | RTLD_LOCAL);
  const auto open = reinterpret_cast<cuda::OpenToolkit>(dlsym(library, cuda::kOpenToolkit));
  std::string error, hint;
  {
    const Variable none("ACT_FAKE_NO_DEVICE", "1");
    EXPECT_EQ(open(0, &error, &hint), nullptr);
    EXPECT_EQ(error, "the fake has no device");
  }
  {
    const Variable old("ACT_FAKE_DRIVER", "11040");
    EXPECT_EQ(open(0, &error, &hint), nullptr);
    EXPECT_EQ(error, "the fake's driver is of version 11040, too old");
  }
  EXPECT_EQ(open(1, &error, &hint), nullptr);
  EXPECT_EQ(error, "the fake has no device 1");
  const Variable no_convolutions("ACT_FAKE_NO_CONVOLUTIONS", "1"), no_products("ACT_FAKE_NO_PRODUCTS", "1");
  TestCard card;
  EXPECT_FALSE(card.toolkit().products().Choose({}, 0, &error));
  EXPECT_FALSE(card.toolkit().convolutions().Choose({}, 0, &error));
}

TEST(FakeCudaMachine, HasSoMuchMemory) {
  const Variable bytes("ACT_FAKE_CARD_BYTES", "100000"), stolen("ACT_FAKE_STOLEN_BYTES", "30000");
  TestCard card;
  cuda::Driver& driver = card.driver();
  EXPECT_EQ(driver.card().memory_bytes, 100000);
  int64_t free = 0;
  ASSERT_EQ(driver.FreeBytes(&free), "");
  std::byte *memory = nullptr, *more = nullptr;
  EXPECT_EQ(driver.Allocate(free, &memory), "Allocate: out of memory");  // another process was faster
  ASSERT_EQ(driver.Allocate(free - 30000, &memory), "");
  EXPECT_EQ(driver.Allocate(1, &more), "Allocate: out of memory");
  EXPECT_EQ(driver.AllocatePinned(1 << 20, &more), "");  // that is the host's
  driver.Free(memory);
  EXPECT_EQ(driver.Allocate(1, &memory), "");
}

TEST(FakeCudaMachine, FailsAtTheAllocationOrLaunchThatTheEnvironmentNames) {
  const Variable allocation("ACT_FAKE_FAIL_ALLOCATION", "5"), launch("ACT_FAKE_FAIL_LAUNCH", "2");
  TestCard card;  // which has made some allocations
  std::byte* memory = nullptr;
  int failures = 0;
  for (int i = 0; i < 5; ++i) failures += card.driver().Allocate(1, &memory) == "Allocate: out of memory";
  EXPECT_EQ(failures, 1);
  const cuda::KernelSource source = SourceOf("nothing", "");
  EXPECT_EQ(RunSource(card, source, {}, 1, 32), "");
  EXPECT_EQ(RunSource(card, source, {}, 1, 32), "kernel nothing: launch failed");
  EXPECT_EQ(RunSource(card, source, {}, 1, 32), "");
}

}  // namespace
}  // namespace act
