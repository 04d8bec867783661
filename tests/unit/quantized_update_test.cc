// Updates with optimizer state in bfloat16 and in 8 bits, against plain loops in double.
#include <algorithm>

#include "tests/unit/quantized_update_case.h"

namespace act {
namespace {

OpResult Updated(const OpCase& c, int threads = 1) {
  return RunKernel(CpuRegistry().For(c.op).back(), c, threads, 0);
}

// The operands after the update, at their own places.
std::vector<TestTensor> After(const QuantizedUpdate& update, const OpCase& c, const OpResult& result) {
  std::vector<TestTensor> inputs = c.inputs;
  for (size_t i = 0; i < c.mutates.size(); ++i)
    inputs[static_cast<size_t>(c.mutates[i])] = result.tensors[c.outputs.size() + i];
  if (update.makes_direction()) inputs[update.parameter()] = result.tensors[0];
  return inputs;
}

// What an element becomes. parameter: LAMB's direction.
struct Truth {
  double parameter, state[2];
};
Truth TruthOf(const QuantizedUpdate& update, const OpCase& c, int64_t e) {
  const auto s = [&c](size_t i) { return static_cast<double>(*c.inputs[i].as<float>()); };
  double p = c.inputs[update.parameter()].as<float>()[e], g = s(update.clip()) * c.inputs[0].as<float>()[e];
  const double m = update.State(c.inputs, 0, e);
  if (update.op == "QuantizedMomentum") {
    g += s(3) * p;
    const double velocity = s(2) * m + g;
    return {p - s(1) * (s(4) * velocity + s(5) * g), {velocity, 0}};
  }
  const double decay = s(7), v = update.State(c.inputs, 1, e);
  if (update.op == "QuantizedAdam" && update.decoupled) p *= decay;
  if (update.op == "QuantizedAdam" && !update.decoupled) g += decay * p;
  const double first = m + s(2) * (g - m), second = s(3) * v + s(4) * g * g;
  const double step = s(1) * first / (s(5) * std::sqrt(second) + s(6));
  return {update.makes_direction() ? step + decay * p : p - step, {first, second}};
}

// The gap between the numbers of a state's form around x; largest: the block's largest magnitude.
double GapAround(const QuantizedUpdate& update, size_t state, double x, double largest) {
  if (!update.coded) return std::ldexp(1, std::ilogb(x) - 7);
  const DynamicMap& map = state == 0 ? kSignedMap : kUnsignedMap;
  int above = 1;
  while (above + 1 < map.size() && map[above] * largest < x) ++above;
  return (map[above] - map[above - 1]) * largest;
}

TEST(QuantizedUpdates, AgreeWithLoopsInDouble) {
  for (const QuantizedUpdate& update : AllQuantizedUpdates())
    for (const int64_t n : {1, 255, 256, 257, 1000}) {
      const OpCase c = update.Case(n, 3);
      const OpResult result = Updated(c);
      ASSERT_EQ(result.error, "");
      const std::vector<TestTensor> after = After(update, c, result);
      std::vector<Truth> truth;
      for (int64_t e = 0; e < n; ++e) truth.push_back(TruthOf(update, c, e));
      for (int64_t e = 0; e < n; ++e) {
        const Truth& expected = truth[static_cast<size_t>(e)];
        // a dozen float32 roundings of numbers up to 4
        EXPECT_NEAR(after[update.parameter()].as<float>()[e], expected.parameter, 4e-6) << update.Name();
        for (size_t i = 0; i < update.states(); ++i) {
          const int64_t begin = e / kMomentBlock * kMomentBlock, end = std::min(n, begin + kMomentBlock);
          double largest = 0;
          for (int64_t k = begin; k < end; ++k)
            largest = std::max(largest, std::fabs(truth[static_cast<size_t>(k)].state[i]));
          const double x = expected.state[i], rounded = update.State(after, i, e);
          // Numbers of the form are at most one gap away, and on the larger side of a border between gaps
          // of two widths that is the wider one. A second moment above 0 may be raised to the least number.
          const double gap = GapAround(update, i, x, largest) * (update.coded ? 1 : 2);
          EXPECT_NEAR(rounded, x, gap + 1e-6 * largest) << update.Name() << ", state " << i << " of " << n;
          EXPECT_TRUE(i == 0 || x == 0 || rounded > 0) << update.Name();
        }
      }
      for (size_t i = 0; update.coded && i < update.states(); ++i) {
        double largest = 0;
        for (int64_t k = 0; k < std::min(n, kMomentBlock); ++k)
          largest = std::max(largest, std::fabs(truth[static_cast<size_t>(k)].state[i]));
        EXPECT_FLOAT_EQ(*after[update.state(i) + 1].as<float>(), static_cast<float>(largest));
      }
    }
}

void ExpectTheReferencesBits(const OpCase& c) {
  const OpResult reference = Updated(c);
  for (const int threads : {1, 3}) {
    const OpResult fast = RunKernel(CpuRegistry().For(c.op).front(), c, threads, 0);
    ASSERT_FALSE(fast.refused) << fast.error;
    for (size_t i = 0; i < reference.tensors.size(); ++i)
      EXPECT_EQ(fast.tensors[i].bytes, reference.tensors[i].bytes)
          << "tensor " << i << ", " << threads << " threads";
  }
}

TEST(QuantizedUpdates, TheFastKernelsHaveTheReferencesBits) {
  for (const QuantizedUpdate& update : AllQuantizedUpdates())
    for (const int64_t elements : {0, 1, 255, 257, 5000}) {
      SCOPED_TRACE(update.Name() + ", " + std::to_string(elements) + " elements");
      ExpectTheReferencesBits(update.Case(elements, 9));
    }
}

// Every part of the maps is met: numbers of all magnitudes beside one of 1; those of the maps, and their neighbours.
TEST(QuantizedUpdates, TheFastKernelsHaveTheReferencesCodes) {
  for (const QuantizedUpdate& update : AllQuantizedUpdates()) {
    SCOPED_TRACE(update.Name());
    OpCase c = update.Case(1 << 16, 9);
    std::mt19937 engine(3);
    std::uniform_real_distribution<float> exponent(-10, 0);
    auto* const gradient = c.inputs[0].as<float>();
    for (int64_t i = 0; i < c.inputs[0].elements(); ++i) {
      const DynamicMap& map = i / 256 % 2 ? kSignedMap : kUnsignedMap;
      const float number = map[static_cast<int>(engine() % static_cast<unsigned>(map.size()))];
      const float neighbours[] = {number, std::nextafter(number, -1.0f), std::nextafter(number, 1.0f),
                                  std::pow(10.0f, exponent(engine))};
      gradient[i] = i % 256 == 0 ? 1.0f : (engine() % 2 ? 1.0f : -1.0f) * neighbours[engine() % 4];
      // Second moments are squares.
      if (engine() % 2) gradient[i] = std::sqrt(std::fabs(gradient[i]));
    }
    for (size_t i = 1; i <= update.clip(); ++i)
      *c.inputs[i].as<float>() = 1;  // first = gradient, second += its square
    for (size_t i = update.parameter() + 1; i < c.inputs.size(); ++i)
      std::fill(c.inputs[i].bytes.begin(), c.inputs[i].bytes.end(), std::byte{0});
    ExpectTheReferencesBits(c);
  }
}

TEST(QuantizedUpdates, TheFastKernelsHaveTheReferencesBitsOfWhatIsNotFinite) {
  for (const QuantizedUpdate& update : AllQuantizedUpdates())
    for (const float odd : {0.0f, -0.0f, 1e-30f, 1e-40f, 1e30f, INFINITY, -INFINITY, NAN}) {
      SCOPED_TRACE(update.Name() + ", " + std::to_string(odd));
      OpCase c = update.Case(1000, 3);
      c.inputs[0].as<float>()[300] = odd;
      std::fill_n(c.inputs[0].as<float>() + 512, 256, odd);
      ExpectTheReferencesBits(c);
    }
}

// A running mean that moves by a thousandth of itself a step moves by less than half a gap of its form. It
// decays as it should on average over elements all the same, and no element stays where it was.
TEST(QuantizedUpdates, SecondMomentsDecay) {
  for (const bool coded : {false, true}) {
    const QuantizedUpdate update{"QuantizedAdam", coded, true};
    constexpr int64_t kElements = 64 * kMomentBlock;
    constexpr int kSteps = 700;
    OpCase c = update.Case(kElements, 3);
    *c.inputs[3].as<float>() = .999f;
    *c.inputs[4].as<float>() = .001f;
    *c.inputs[update.clip()].as<float>() = 1;
    // Block maxima stay where they are: the first element's gradient is as large as its second moment.
    for (int64_t e = 0; e < kElements; ++e) {
      const bool first = e % kMomentBlock == 0;
      c.inputs[0].as<float>()[e] = first ? 1.f : 0.f;
      if (coded)
        c.inputs[update.state(1)].as<uint8_t>()[e] = first ? 254 : 200;
      else
        c.inputs[update.state(1)].as<BFloat16>()[e] = FromFloat<BFloat16>(first ? 1.f : kUnsignedMap[200]);
    }
    if (coded) std::fill_n(c.inputs[update.state(1) + 1].as<float>(), kElements / kMomentBlock, 1.f);
    const double start = update.State(c.inputs, 1, 1);
    for (int step = 0; step < kSteps; ++step) {
      c.state.step = static_cast<uint64_t>(step);
      c.inputs = After(update, c, Updated(c));
    }
    double sum = 0;
    int64_t still = 0, count = 0;
    for (int64_t e = 0; e < kElements; ++e) {
      if (e % kMomentBlock == 0) continue;
      sum += update.State(c.inputs, 1, e);
      still += update.State(c.inputs, 1, e) == static_cast<float>(start);
      ++count;
    }
    // The deviation of an element is at most the root of 700 moves of variance gap |move| (.007 times .0006 in 8
    // bits): .055, where .306 is expected. The mean of 16320 elements has 1/128 of it, .0014 of what is expected.
    const double expected = start * std::pow(.999, kSteps);
    EXPECT_NEAR(sum / static_cast<double>(count), expected, .008 * expected) << update.Name();
    EXPECT_LT(still, count / 10) << update.Name();
  }
}

// However small a second moment is beside the largest of its block: to 0 it would be rounded nearly always.
TEST(QuantizedUpdates, SecondMomentsAreNeverRoundedToZero) {
  for (const char* op : {"QuantizedAdam", "QuantizedLamb"}) {
    const QuantizedUpdate update{op, true, false};
    OpCase c = update.Case(600, 4);
    for (size_t i = update.parameter() + 1; i < c.inputs.size(); ++i)
      std::fill(c.inputs[i].bytes.begin(), c.inputs[i].bytes.end(), std::byte{});
    *c.inputs[7].as<float>() = 0;  // no weight decay
    for (int64_t e = 0; e < 600; ++e)
      c.inputs[0].as<float>()[e] = e % kMomentBlock == 7 ? 10.f : e % 5 == 0 ? 0.f : 1e-4f;
    const std::vector<TestTensor> after = After(update, c, Updated(c));
    for (int64_t e = 0; e < 600; ++e)
      EXPECT_EQ(update.State(after, 1, e) > 0, c.inputs[0].as<float>()[e] > 0) << update.Name() << " " << e;
  }
}

// Another step draws other bits, and so does another seed.
TEST(QuantizedUpdates, RoundByStepAndSeed) {
  for (const QuantizedUpdate& update : AllQuantizedUpdates()) {
    OpCase c = update.Case(600, 4);
    const std::vector<TestTensor> before = After(update, c, Updated(c));
    const size_t state = update.state(0), parameter = update.parameter();
    c.state.step = 1;
    const std::vector<TestTensor> step = After(update, c, Updated(c));
    c.state = {.seed = 1};
    const std::vector<TestTensor> seed = After(update, c, Updated(c));
    EXPECT_NE(before[state].bytes, step[state].bytes) << update.Name();
    EXPECT_NE(before[state].bytes, seed[state].bytes) << update.Name();
    EXPECT_NE(step[state].bytes, seed[state].bytes) << update.Name();
    EXPECT_EQ(before[parameter].bytes, step[parameter].bytes) << update.Name();
  }
}

// State starts as zero bytes, and a gradient of zeros leaves it at 0.
TEST(QuantizedUpdates, StartFromZeroBytes) {
  for (const QuantizedUpdate& update : AllQuantizedUpdates()) {
    OpCase c = update.Case(600, 4);
    std::fill(c.inputs[0].bytes.begin(), c.inputs[0].bytes.end(), std::byte{});
    for (size_t i = update.parameter() + 1; i < c.inputs.size(); ++i)
      std::fill(c.inputs[i].bytes.begin(), c.inputs[i].bytes.end(), std::byte{});
    if (!update.decoupled) *c.inputs[update.scalars() == 5 ? 3 : 7].as<float>() = 0;  // no weight decay
    const std::vector<TestTensor> after = After(update, c, Updated(c));
    for (int64_t e = 0; e < 600; ++e) {
      const float p = c.inputs[update.parameter()].as<float>()[e];
      EXPECT_EQ(after[update.parameter()].as<float>()[e], update.makes_direction() ? 0
                                                          : update.decoupled       ? .999f * p
                                                                                   : p)
          << update.Name();
      for (size_t i = 0; i < update.states(); ++i) EXPECT_EQ(update.State(after, i, e), 0) << update.Name();
    }
  }
}

TEST(QuantizedUpdates, ANumberThatIsNotFiniteSpoilsItsBlockAlone) {
  for (const QuantizedUpdate& update : AllQuantizedUpdates())
    for (const float bad : {INFINITY, -INFINITY, NAN}) {
      OpCase c = update.Case(600, 4);
      c.inputs[0].as<float>()[300] = bad;
      const std::vector<TestTensor> after = After(update, c, Updated(c));
      for (size_t i = 0; i < update.states(); ++i) {
        EXPECT_FALSE(std::isfinite(update.State(after, i, 300))) << update.Name();
        for (const int64_t e : {0, 255, 512, 599})
          EXPECT_TRUE(std::isfinite(update.State(after, i, e))) << update.Name() << " " << e;
        // A scale for all of a block is NaN for all of it.
        EXPECT_EQ(std::isfinite(update.State(after, i, 301)), !update.coded) << update.Name();
      }
    }
}

TEST(QuantizedUpdates, RefuseOperandsOfNoForm) {
  for (const QuantizedUpdate& update : AllQuantizedUpdates()) {
    std::vector<OpCase> wrong(4, update.Case(600, 4));
    wrong[0].inputs.push_back(Floats({}, {1}));
    wrong[1].inputs[update.state(0)] = Empty({600});
    wrong[2].inputs[update.state(0)] = Empty({599}, update.coded ? DType::kUint8 : DType::kBFloat16);
    wrong[3].inputs[1] = Floats({2}, {1, 2});
    for (const OpCase& c : wrong) EXPECT_TRUE(Updated(c).refused) << update.Name();
  }
}

}  // namespace
}  // namespace act
