#include "runtime/executor/kernel_choice.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "kernels/site/lambda_kernel.h"
#include "tests/take.h"

namespace act {
namespace {

struct Site {
  Site() {
    node.op = "Conv";
    node.name = "conv1";
    node.attrs.Set("group", int64_t{1});
    node.attrs.Set("pads", std::vector<int64_t>{1, 1});
    site = {.node = &node,
            .inputs = {View({2, 3})},
            .outputs = {View({2, 4})},
            .batch = 2,
            .workspace_bytes = 64,
            .whole_batch = 2};
  }
  static TensorView View(std::vector<int64_t> dims) {
    TensorView view;
    view.dims = std::move(dims);
    view.bytes = 4;
    return view;
  }
  Node node;
  KernelSite site;
};

TEST(SiteText, TellsSitesThatMayRunAtOtherSpeedsApart) {
  std::set<std::string> texts = {SiteText(Site().site)};
  const std::vector<std::function<void(Site&)>> changes = {
      [](Site& s) { s.node.op = "MatMul"; },
      [](Site& s) { s.node.attrs.Set("group", int64_t{2}); },
      [](Site& s) {
        s.node.attrs.Set("pads", std::vector<int64_t>{1, 2});
      },
      [](Site& s) { s.node.attrs.Set("mode", "edge"); },
      [](Site& s) { s.node.attrs.Set("mode", "two words"); },
      [](Site& s) { s.node.attrs.Set("scale", 0.5); },
      [](Site& s) { s.node.program.outputs = {{}}; },
      [](Site& s) { s.site.inputs[0].dtype = DType::kBFloat16; },
      [](Site& s) {
        s.site.inputs[0].dims = {3, 2};
      },
      [](Site& s) { s.site.inputs.push_back({}); },
      [](Site& s) {
        s.site.outputs[0].dims = {2, 5};
      },
      [](Site& s) { s.site.workspace_bytes = 128; },
      [](Site& s) { s.site.threads = 2; },
      [](Site& s) { s.site.batch = 1; },
      [](Site& s) { s.site.whole_batch = 4; },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    Site site;
    changes[i](site);
    EXPECT_TRUE(texts.insert(SiteText(site.site)).second) << "change " << i << ": " << SiteText(site.site);
  }
}

TEST(SiteText, IsTheSameWhateverTheNodeIsCalled) {
  Site other;
  other.node.name = "conv2";
  other.node.attrs.Set("stream", int64_t{7});
  EXPECT_EQ(SiteText(other.site), SiteText(Site().site));
}

// Attributes come from files that are not trusted.
TEST(SiteText, IsOneLine) {
  Site hostile;
  hostile.node.attrs.Set("mode\n", "edge\nConv -> other");
  EXPECT_EQ(SiteText(hostile.site).find_first_of("\n>"), std::string::npos) << SiteText(hostile.site);
}

KernelEntry Entry(const std::string& name, bool accepts, int64_t workspace_bytes = 0) {
  return {name, [=](const KernelSite&, std::string* why) -> std::unique_ptr<Kernel> {
            if (!accepts) return Refuse(why, "no");
            return MakeKernel([](const KernelArgs&) { return std::string(); }, workspace_bytes);
          }};
}

TEST(TakeKernel, TakesThePreferredOneOrElseTheFirst) {
  KernelRegistry registry;
  for (const KernelEntry& entry : {Entry("refuses", false), Entry("large", true, 65), Entry("first", true),
                                   Entry("second", true), Entry("last", false)})
    registry.Add("Conv", entry);
  const Site site;
  for (const auto& [preferred, taken] :
       std::vector<std::pair<std::string, std::string>>{{"", "first"},
                                                        {"first", "first"},
                                                        {"second", "second"},
                                                        {"last", "first"},
                                                        {"large", "first"},
                                                        {"unknown", "first"}}) {
    const TakenKernel kernel = Take(TakeKernel(registry, site.site, preferred));
    EXPECT_EQ(kernel.name, taken) << preferred;
    EXPECT_NE(kernel.kernel, nullptr);
    EXPECT_EQ(kernel.refusals,
              (std::vector<std::string>{"refuses: no", "large: asks for more workspace than the plan gives"}))
        << preferred;
  }
}

TEST(TakeKernel, ListsAllRefusals) {
  KernelRegistry registry;
  registry.Add("Conv", Entry("a", false));
  registry.Add("Conv", Entry("b", false));
  EXPECT_EQ(llvm::toString(TakeKernel(registry, Site().site, "b").takeError())
                .rfind("node 'conv1' (Conv): no kernel runs this operator here; a: no; b: no", 0),
            0u);
}

}  // namespace
}  // namespace act
