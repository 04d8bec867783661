// Sequences of tensors, as exporters write torch.split and torch.unbind.
#include <string>
#include <vector>

#include "tests/compiler/import_testing.h"

namespace act {
namespace {

using import_testing::Attr;
using import_testing::ErrorOf;
using import_testing::Find;
using import_testing::Import;
using import_testing::OnnxModel;
using Ints = std::vector<int64_t>;

TEST(ImportSequences, PartsAreSlices) {
  OnnxModel m;
  m.Input("x", {"N", 5}).Integers("size", {2}, true).Integers("last", {-1}, true);
  m.Node("SplitToSequence", {"x", "size"}, {"parts"}, {Attr("axis", int64_t{1})})
      .Node("SequenceAt", {"parts", "last"}, {"y"});
  m.MeanLoss("y");
  const ImportResult r = Import(m);
  EXPECT_EQ(ToString(r.graph.value(Find(r.graph, "Slice")->outputs[0]).type), "f32[N,1]") << "2 + 2 + 1";
}

TEST(ImportSequences, PositionsHaveNoAxisWithoutKeepdims) {
  const auto type = [](bool sizes, int64_t keepdims) {
    OnnxModel m;
    m.Input("x", {"N", 5, 2}).Integers("size", {2}, true).Integers("last", {-1}, true);
    m.Node("SplitToSequence", {"x", sizes ? "size" : ""}, {"parts"},
           {Attr("axis", int64_t{1}), Attr("keepdims", keepdims)})
        .Node("SequenceAt", {"parts", "last"}, {"part"})
        .Node("Exp", {"part"}, {"y"});
    m.MeanLoss("y");
    const ImportResult r = Import(m);
    return ToString(r.graph.value(Find(r.graph, "Exp")->outputs[0]).type);
  };
  EXPECT_EQ(type(false, 0), "f32[N,2]");
  EXPECT_EQ(type(false, 1), "f32[N,1,2]");
  EXPECT_EQ(type(true, 0), "f32[N,1,2]") << "keepdims says nothing where sizes are given";
}

// Each part is a node of the step.
TEST(ImportSequences, PartsHaveALimit) {
  constexpr int64_t kMany = 200'000;
  for (const char* sizes : {"", "one", "ones"}) {
    OnnxModel m;
    m.Input("x", {"N", kMany}).Integers("one", {1}, true).Integers("ones", Ints(kMany, 1));
    m.Node("SplitToSequence", {"x", sizes}, {"parts"}, {Attr("axis", int64_t{1})})
        .Node("SequenceAt", {"parts", "one"}, {"y"});
    m.MeanLoss("y");
    EXPECT_NE(ErrorOf(m).find("becomes more than 131072 nodes"), std::string::npos) << sizes;
  }
}

}  // namespace
}  // namespace act
