// The keys that a mask lets each query see, against the mask's elements.
#include "passes/recognize/visible_keys.h"

#include <cmath>
#include <functional>
#include <string>

#include "compiler/ops/graph_builder.h"
#include "tests/compiler/compiled_step.h"

namespace act {
namespace {

using testing_step::Take;

constexpr int64_t kQueries = 5, kKeys = 7;

// A mask as the importer writes it, and its elements.
struct Mask {
  ValueId value;
  std::function<bool(int64_t query, int64_t key)> sees;
};
struct Line {
  ValueId value;
  std::function<double(int64_t query, int64_t key)> at;
};

class Masks {
 public:
  Line OfQueries(const std::vector<float>& x) {
    return {Floats({1, 1, kQueries, 1}, x), [x](int64_t i, int64_t) { return x[static_cast<size_t>(i)]; }};
  }
  Line OfKeys(const std::vector<float>& x) {
    return {Floats({kKeys}, x), [x](int64_t, int64_t j) { return x[static_cast<size_t>(j)]; }};
  }
  Line ForAll(float x) {
    return {b_.Scalar(x), [x](int64_t, int64_t) { return x; }};
  }
  // Whole numbers, spread over the batch.
  Line SpreadOfKeys(const std::vector<int64_t>& x) {
    const auto bytes = static_cast<int64_t>(x.size() * sizeof(int64_t));
    const ValueId once =
        b_.Constant("", {DType::kInt64, {1, 1, 1, kKeys}}, HostTensor::Copy(x.data(), bytes));
    return {Take(b_.Expand(once, {Dim::Batch(), 1, 1, kKeys})),
            [x](int64_t, int64_t j) { return static_cast<double>(x[static_cast<size_t>(j)]); }};
  }
  // The same after a lookup by batch and position at once: [7] -> [N,7] -> [7N,1] -> [N,1,1,7] or [N,1,7,1].
  Line LookedUp(const std::vector<int64_t>& x, bool of_keys) {
    const auto count = static_cast<int64_t>(x.size());
    const HostTensor data = HostTensor::Copy(x.data(), static_cast<int64_t>(x.size() * sizeof(int64_t)));
    ValueId v = b_.Constant("", {DType::kInt64, {count}}, data);
    v = Take(b_.Expand(v, {Dim::Batch(), count}));
    v = Take(b_.Reshape(v, {Dim::Batch() * Dim(count), 1}));
    v = Take(b_.Reshape(v, of_keys ? Dims{Dim::Batch(), 1, 1, count} : Dims{Dim::Batch(), 1, count, 1}));
    return {v, [x, of_keys](int64_t i, int64_t j) {
              return static_cast<double>(x[static_cast<size_t>(of_keys ? j : i)]);
            }};
  }
  // With the axes of queries and keys swapped at first.
  Line Turned(const std::vector<float>& x) {
    const ValueId v = Floats({1, 1, 1, static_cast<int64_t>(x.size())}, x);
    return {Take(b_.Transpose(v, {0, 1, 3, 2})),
            [x](int64_t i, int64_t) { return x[static_cast<size_t>(i)]; }};
  }
  // Exact comparison of integers.
  Mask IntegerGreater(const Line& a, const Line& b) {
    return {Op("Integer", {a.value, b.value}, Attribute("op", std::string("greater"))),
            [=](int64_t i, int64_t j) { return a.at(i, j) > b.at(i, j); }};
  }
  // ONNX's Trilu of ones, and where it is 0.
  Mask Outside(const Mask& triangle) {
    return {Op("Equal", {Op("Where", {triangle.value, b_.Scalar(1), b_.Scalar(0)}), b_.Scalar(0)}),
            [=](int64_t i, int64_t j) { return !triangle.sees(i, j); }};
  }
  // The same of flags.
  Mask Selected(const Mask& a, bool if_true, bool if_false) {
    const auto flag = [&](bool x) { return b_.Constant("", {DType::kBool, {}}, HostTensor::Copy(&x, 1)); };
    return {Op("Integer", {a.value, flag(if_true), flag(if_false)}, Attribute("op", std::string("select"))),
            [=](int64_t i, int64_t j) { return a.sees(i, j) ? if_true : if_false; }};
  }
  Mask Less(const Line& a, const Line& b) {
    return {Op("Less", {a.value, b.value}), [=](int64_t i, int64_t j) { return a.at(i, j) < b.at(i, j); }};
  }
  Mask Greater(const Line& a, const Line& b) {
    return {Op("Greater", {a.value, b.value}), [=](int64_t i, int64_t j) { return a.at(i, j) > b.at(i, j); }};
  }
  Mask Equal(const Line& a, const Line& b) {
    return {Op("Equal", {a.value, b.value}), [=](int64_t i, int64_t j) { return a.at(i, j) == b.at(i, j); }};
  }
  Mask Not(const Mask& a) {
    return {Op("Equal", {a.value, b_.Scalar(0)}), [=](int64_t i, int64_t j) { return !a.sees(i, j); }};
  }
  Mask And(const Mask& a, const Mask& b) {
    return {Logic("Mul", a, b), [=](int64_t i, int64_t j) { return a.sees(i, j) && b.sees(i, j); }};
  }
  Mask Or(const Mask& a, const Mask& b) {
    return {Logic("Max", a, b), [=](int64_t i, int64_t j) { return a.sees(i, j) || b.sees(i, j); }};
  }
  // A slice for each of `later`, in which a query sees so many keys' places later.
  Mask Constant(const std::function<bool(int64_t, int64_t)>& sees, const std::vector<int64_t>& later = {0}) {
    std::vector<uint8_t> flags;
    for (const int64_t by : later)
      for (int64_t i = 0; i < kQueries; ++i)
        for (int64_t j = 0; j < kKeys; ++j) flags.push_back(sees(i, j - by));
    const TensorType type{DType::kBool, {static_cast<int64_t>(later.size()), kQueries, kKeys}};
    return {b_.Constant("", type, HostTensor::Copy(flags.data(), static_cast<int64_t>(flags.size()))), sees};
  }
  // Differs from sample to sample.
  ValueId Input() {
    return b_.Input("padding", {DType::kBool, {Dim::Batch(), 1, 1, kKeys}}, ValueKind::kInput);
  }
  ValueId And(const Mask& a, ValueId b) { return Logic("Mul", a, {b, {}}); }
  ValueId Or(const Mask& a, ValueId b) { return Logic("Max", a, {b, {}}); }

  // The ranges that are found, which must be those of the elements; "unknown" if none are found.
  std::string Found(const Mask& mask, bool hides = false) const {
    const AttentionMatcher nodes(graph_, graph_.nodes);
    const auto ranges = VisibleKeys(nodes, kQueries, kKeys).Of({mask.value, hides});
    if (!ranges) return "unknown";
    EXPECT_EQ(ranges->size(), static_cast<size_t>(kQueries));
    std::string text;
    for (int64_t i = 0; i < kQueries; ++i) {
      const KeyRange& range = (*ranges)[static_cast<size_t>(i)];
      for (int64_t j = 0; j < kKeys; ++j)
        EXPECT_EQ(range.first <= j && j < range.last, mask.sees(i, j) != hides) << i << ", " << j;
      text += (i > 0 ? " " : "") + std::to_string(range.first) + ".." + std::to_string(range.last);
    }
    return text;
  }
  std::vector<MaskTerm> Terms(ValueId mask, bool hides) const {
    const AttentionMatcher nodes(graph_, graph_.nodes);
    return VisibleKeys(nodes, kQueries, kKeys).TermsOf({mask, hides});
  }

 private:
  template <class T>
  static Attributes Attribute(const char* name, T value) {
    Attributes attrs;
    attrs.Set(name, std::move(value));
    return attrs;
  }
  ValueId Op(const char* op, std::vector<ValueId> in, Attributes attrs = {}) {
    return Take(b_.Add1(op, std::move(in), std::move(attrs)));
  }
  ValueId Floats(Dims dims, const std::vector<float>& x) {
    return b_.Constant("", {DType::kFloat32, std::move(dims)}, testing_step::HostFloats(x));
  }
  ValueId Logic(const char* op, const Mask& a, const Mask& b) {
    Attributes to_float;
    to_float.Set("to", static_cast<int64_t>(DType::kFloat32));
    return Op("Greater",
              {Op(op, {Op("Cast", {a.value}, to_float), Op("Cast", {b.value}, to_float)}), b_.Scalar(0)});
  }

  Graph graph_;
  GraphBuilder b_{graph_};
};

const std::vector<float> kQueryAt{2, 3, 4, 5, 6}, kKeyAt{0, 1, 2, 3, 4, 5, 6};

TEST(VisibleKeys, FollowsComparisonsOfPositions) {
  Masks m;
  const Line q = m.OfQueries(kQueryAt), k = m.OfKeys(kKeyAt);
  const std::string causal = "0..3 0..4 0..5 0..6 0..7";
  EXPECT_EQ(m.Found(m.Or(m.Less(k, q), m.Equal(k, q))), causal);
  EXPECT_EQ(m.Found(m.Or(m.Greater(q, k), m.Equal(q, k))), causal);
  EXPECT_EQ(m.Found(m.Not(m.Greater(k, q))), causal);
  EXPECT_EQ(m.Found(m.Less(q, k), /*hides=*/true), causal);
  EXPECT_EQ(m.Found(m.Less(k, q)), "0..2 0..3 0..4 0..5 0..6");
  EXPECT_EQ(m.Found(m.Greater(k, q)), "3..7 4..7 5..7 6..7 0..0");
  EXPECT_EQ(m.Found(m.Equal(k, q)), "2..3 3..4 4..5 5..6 6..7");
  EXPECT_EQ(m.Found(m.And(m.Not(m.Greater(k, q)), m.Greater(k, m.OfQueries({-1, 0, 1, 2, 3})))),
            "0..3 1..4 2..5 3..6 4..7");
  EXPECT_EQ(m.Found(m.Less(k, m.ForAll(3))), "0..3 0..3 0..3 0..3 0..3");
  EXPECT_EQ(m.Found(m.Less(q, m.ForAll(4))), "0..7 0..7 0..0 0..0 0..0");
  EXPECT_EQ(m.Found(m.Equal(m.OfKeys(std::vector<float>(kKeys)), m.OfQueries(std::vector<float>(kQueries)))),
            "0..7 0..7 0..7 0..7 0..7");
  EXPECT_EQ(m.Found(m.Less(m.SpreadOfKeys({0, 0, 3, 3, 5, 8, 9}), q)), "0..2 0..2 0..4 0..4 0..5");
}

TEST(VisibleKeys, FollowsMovedPositions) {
  Masks m;
  const std::string causal = "0..3 0..4 0..5 0..6 0..7";
  const std::vector<int64_t> query_at{2, 3, 4, 5, 6}, key_at{0, 1, 2, 3, 4, 5, 6};
  const Line q = m.LookedUp(query_at, false), k = m.LookedUp(key_at, true);
  EXPECT_EQ(m.Found(m.Not(m.IntegerGreater(k, q))), causal);
  EXPECT_EQ(m.Found(m.IntegerGreater(q, k)), "0..2 0..3 0..4 0..5 0..6");
  EXPECT_EQ(m.Found(m.Not(m.Greater(m.OfKeys(kKeyAt), m.Turned(kQueryAt)))), causal);
  EXPECT_EQ(m.Found(m.Equal(m.LookedUp({1, 1, 1, 1, 1, 1, 1}, true), m.LookedUp({1, 1, 1, 1, 1}, false))),
            "0..7 0..7 0..7 0..7 0..7");
}

TEST(VisibleKeys, FollowsTrianglesOfOnes) {
  Masks m;
  const Mask triangle = m.Less(m.OfKeys(kKeyAt), m.OfQueries({3, 4, 5, 6, 7}));
  const std::string causal = "0..3 0..4 0..5 0..6 0..7";
  EXPECT_EQ(m.Found(m.Outside(triangle), /*hides=*/true), causal);
  EXPECT_EQ(m.Found(m.Not(m.Outside(triangle))), causal);
  EXPECT_EQ(m.Found(m.Selected(triangle, true, false)), causal);
  EXPECT_EQ(m.Found(m.Selected(triangle, false, true), /*hides=*/true), causal);
  EXPECT_EQ(m.Found(m.Selected(triangle, true, true)), "unknown");
}

TEST(VisibleKeys, ReadsConstants) {
  Masks m;
  const auto band = [](int64_t i, int64_t j) { return i <= j && j < i + 2; };
  EXPECT_EQ(m.Found(m.Constant(band)), "0..2 1..3 2..4 3..5 4..6");
  EXPECT_EQ(m.Found(m.Constant(band, {0, 0})), "0..2 1..3 2..4 3..5 4..6");
  EXPECT_EQ(m.Found(m.Constant([](int64_t, int64_t) { return false; })), "0..0 0..0 0..0 0..0 0..0");
}

TEST(VisibleKeys, SaysNothingOfOtherMasks) {
  Masks m;
  const Line q = m.OfQueries(kQueryAt), k = m.OfKeys(kKeyAt);
  EXPECT_EQ(m.Found(m.Constant([](int64_t i, int64_t j) { return i != j; })), "unknown") << "a gap";
  EXPECT_EQ(m.Found(m.Not(m.Equal(k, q))), "unknown") << "keys on both sides";
  EXPECT_EQ(m.Found(m.Or(m.Less(k, m.ForAll(1)), m.Greater(k, q))), "unknown") << "a gap between two ranges";
  EXPECT_EQ(m.Found(m.Less(m.OfKeys({0, 2, 1, 3, 4, 5, 6}), q)), "unknown") << "keys that are not in order";
  EXPECT_EQ(m.Found(m.Less(m.OfKeys({0, 1, NAN, 3, 4, 5, 6}), q)), "unknown");
  EXPECT_EQ(m.Found(m.Constant([](int64_t i, int64_t j) { return j <= i; }, {0, 1})), "unknown")
      << "slices that differ";
}

TEST(VisibleKeys, PartsAConjunction) {
  Masks m;
  const Mask causal = m.Not(m.Greater(m.OfKeys(kKeyAt), m.OfQueries(kQueryAt)));
  const ValueId padding = m.Input();
  EXPECT_EQ(m.Terms(m.And(causal, padding), false).size(), 2u);
  EXPECT_EQ(m.Terms(m.And(causal, padding), true).size(), 1u) << "either of them may hide a pair";
  EXPECT_EQ(m.Terms(m.Or(causal, padding), false).size(), 1u);
  const std::vector<MaskTerm> both = m.Terms(m.Or(causal, padding), true);
  ASSERT_EQ(both.size(), 2u);
  EXPECT_FALSE(both[0].hides_where_true) << "what hides where it is not true";
  EXPECT_EQ(both[1].value, padding);
  EXPECT_TRUE(both[1].hides_where_true);
}

TEST(VisibleKeys, CausalMeansOneMoreKeyForEachQuery) {
  const auto offset = [](const std::vector<KeyRange>& ranges) {
    return BoundsOf(ranges, 3).band.causal_offset;
  };
  EXPECT_EQ(offset({{0, 1}, {0, 2}, {0, 3}}), 0);
  EXPECT_EQ(offset({{0, 2}, {0, 3}, {0, 3}}), 1);
  EXPECT_EQ(offset({{0, 1}, {1, 2}, {0, 3}}), 0) << "of keys that come later";
  EXPECT_EQ(offset({{0, 1}, {0, 3}, {0, 3}}), std::nullopt);
  EXPECT_EQ(offset({{0, 0}, {0, 1}, {0, 2}}), std::nullopt) << "the first query sees nothing";
  EXPECT_EQ(offset({{0, 3}, {0, 3}}), std::nullopt) << "nothing is hidden";
  EXPECT_EQ(offset({}), std::nullopt);
}

TEST(VisibleKeys, AWindowBeginsOneKeyLaterForEachQuery) {
  const auto offset = [](const std::vector<KeyRange>& ranges) {
    return BoundsOf(ranges, 4).band.window_offset;
  };
  EXPECT_EQ(offset({{0, 1}, {0, 2}, {1, 3}}), -1);
  EXPECT_EQ(offset({{1, 4}, {2, 4}, {3, 4}}), 1);
  EXPECT_EQ(offset({{0, 4}, {0, 4}, {1, 4}}), -1) << "the same bound";
  EXPECT_EQ(offset({{0, 1}, {1, 3}, {1, 3}}), std::nullopt);
  EXPECT_EQ(offset({{1, 2}, {1, 2}, {1, 2}}), std::nullopt);
  EXPECT_EQ(offset({{2, 4}, {3, 4}, {0, 0}}), std::nullopt) << "the last query sees nothing";
  EXPECT_EQ(offset({{0, 4}, {0, 4}}), std::nullopt) << "nothing is hidden";
  EXPECT_EQ(offset({{0, 1}, {0, 2}}), std::nullopt) << "later keys are";
  EXPECT_EQ(offset({}), std::nullopt);
}

TEST(VisibleKeys, ABandNarrows) {
  KeyBand band;
  band.Narrow({.causal_offset = 2, .window_offset = {}});
  band.Narrow({.causal_offset = 1, .window_offset = -4});
  band.Narrow({.causal_offset = {}, .window_offset = -5});
  EXPECT_EQ(band.causal_offset, 1);
  EXPECT_EQ(band.window_offset, -4);
}

TEST(VisibleKeys, ABoundIsThereIfItHidesSomething) {
  using Limits = std::vector<float>;
  const KeyBounds all = BoundsOf({{0, 3}, {0, 3}}, 3), both = BoundsOf({{0, 1}, {1, 2}, {1, 3}}, 3),
                  ends = BoundsOf({{0, 2}, {0, 0}}, 3);
  EXPECT_TRUE(all.first.empty() && all.last.empty());
  EXPECT_EQ(both.first, (Limits{0, 1, 1}));
  EXPECT_EQ(both.last, Limits()) << "causal";
  EXPECT_EQ(ends.first, Limits());
  EXPECT_EQ(ends.last, (Limits{2, 0}));
}

}  // namespace
}  // namespace act
