#include "runtime/memory/report.h"

#include <gtest/gtest.h>
#include <llvm/Support/JSON.h>

#include "tests/unit/small_plan.h"

namespace act {
namespace {

using testing::SmallPlan;

llvm::json::Object Json(const MemoryReport& report) {
  llvm::Expected<llvm::json::Value> value = llvm::json::parse(ReportJson(report));
  return std::move(*llvm::cantFail(std::move(value)).getAsObject());
}

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Report, CategoriesInJsonAddUpToThePeak) {
  const llvm::json::Object json = Json(llvm::cantFail(MakeMemoryReport(SmallPlan(), 2)));
  int64_t sum = 0;
  for (const char* key : {"parameters_bytes", "gradients_bytes", "optimizer_bytes", "saved_at_peak_bytes",
                          "transient_bytes", "workspace_bytes"})
    sum += json.getInteger(key).value_or(-1'000'000);
  EXPECT_EQ(sum, 4160);  // computed in layout_test.cc
  EXPECT_EQ(json.getInteger("peak_bytes"), 4160);
  EXPECT_EQ(json.getInteger("lower_bound_bytes"), 4160);
  EXPECT_EQ(json.getString("peak_op"), "MatMul fc/grad_w");
}

TEST(Report, JsonHasTheEdgesTheTimelineAndTheBatches) {
  const llvm::json::Object json = Json(llvm::cantFail(MakeMemoryReport(SmallPlan(), 2)));
  EXPECT_EQ(json.getString("model"), "small.onnx");
  EXPECT_EQ(json.getString("level"), "L2");
  EXPECT_EQ(json.getInteger("batch"), 2);
  // 2 samples of 4 bytes of metadata, aligned to 16, and 32 of payload
  EXPECT_EQ(json.getInteger("saved_bytes"), 96);
  EXPECT_EQ(json.getInteger("saved_bytes_uncompressed"), 512);
  ASSERT_EQ(json.getArray("edges")->size(), 1u);
  const llvm::json::Object& edge = *(*json.getArray("edges"))[0].getAsObject();
  EXPECT_EQ(edge.getString("name"), "x");
  EXPECT_EQ(edge.getString("form"), "uniform4,g256");
  EXPECT_EQ((*edge.getArray("consumers"))[0].getAsString(), "fc/grad_w");
  EXPECT_EQ(edge.getInteger("bytes"), 96);
  EXPECT_EQ(edge.getInteger("bytes_uncompressed"), 512);
  ASSERT_EQ(json.getArray("timeline")->size(), 7u);
  const llvm::json::Array& first = *(*json.getArray("timeline"))[0].getAsArray();
  EXPECT_EQ(first[0].getAsString(), "MatMul fc");
  EXPECT_EQ(first[1].getAsInteger(), 3840);
  for (const char* card : {"8GiB", "16GiB", "24GiB", "40GiB", "80GiB"})
    EXPECT_GT(json.getObject("max_batch")->getInteger(card).value_or(0), 0) << card;
}

TEST(Report, TextSaysPeakCategoriesSavingsAndBatches) {
  const std::string text = ReportText(llvm::cantFail(MakeMemoryReport(SmallPlan(), 2)));
  for (const char* part : {"Memory of small.onnx, level L2, batch 2", "4.06 KiB  at MatMul fc/grad_w",
                           "1.000 times", "gradients             1.00 KiB   24.6 %",
                           "512 B -> 96 B (5.3 times less), 1 edge", "largest batch", "backward begins"})
    EXPECT_TRUE(Contains(text, part)) << part << "\n" << text;
}

TEST(Report, OfACardNamesTheTargetAndWhatFits) {
  const Card small{"small", (int64_t{1} << 30) + 6655};  // one byte less than the arena of two samples
  const MemoryReport report = llvm::cantFail(MakeMemoryReport(SmallPlan(), 2, TargetKind::kCuda, &small));
  const llvm::json::Object json = Json(report);
  EXPECT_EQ(json.getString("target"), "cuda");
  EXPECT_EQ(json.getInteger("peak_bytes"), 6656);  // computed in layout_test.cc
  const llvm::json::Object& card = *json.getObject("card");
  EXPECT_EQ(card.getString("name"), "small");
  EXPECT_EQ(card.getInteger("arena_bytes"), 6655);
  EXPECT_EQ(card.getBoolean("fits"), false);
  EXPECT_EQ(card.getInteger("max_batch"), 1);
  const std::string text = ReportText(report);
  EXPECT_TRUE(Contains(text, "batch 2, target cuda")) << text;
  EXPECT_TRUE(Contains(text, "for the arena, which does not fit; largest batch 1")) << text;
  EXPECT_TRUE(Contains(ReportHtml(report), "<th>small</th>"));
  const std::string fitting =
      ReportText(llvm::cantFail(MakeMemoryReport(SmallPlan(), 1, TargetKind::kCuda, &small)));
  EXPECT_TRUE(Contains(fitting, "for the arena, which fits; largest batch 1")) << fitting;
}

TEST(Report, OfTheCpuNamesNoCard) {
  const llvm::json::Object json = Json(llvm::cantFail(MakeMemoryReport(SmallPlan(), 2)));
  EXPECT_EQ(json.getString("target"), "cpu");
  EXPECT_EQ(json.getObject("card"), nullptr);
}

TEST(Cards, HaveNamesAndRoom) {
  for (const char* name : {"h200", "h100", "a100", "b200", "l4"}) {
    const Card* card = FindCard(name);
    ASSERT_NE(card, nullptr) << name;
    EXPECT_GT(card->ArenaBytes(), int64_t{16} << 30) << name;
    EXPECT_LT(card->ArenaBytes(), card->memory_bytes) << name;
  }
  EXPECT_EQ(FindCard("H200"), nullptr);
  EXPECT_EQ(CardNames(), "h200, h100, a100, b200, l4");
}

TEST(Report, HtmlNeedsNothingElseAndEscapesNames) {
  Plan plan = SmallPlan();
  plan.train.graph.nodes[0].name = "<script>&\"";
  plan.model_name = "a<b>.onnx";
  const std::string html = ReportHtml(llvm::cantFail(MakeMemoryReport(plan, 2)));
  EXPECT_FALSE(Contains(html, "<script>"));
  EXPECT_TRUE(Contains(html, "MatMul &lt;script&gt;&amp;&quot;"));
  EXPECT_FALSE(Contains(html, "http"));
  EXPECT_TRUE(Contains(html, "</svg>"));
  EXPECT_TRUE(Contains(html, "<td>fc/grad_w</td>"));
}

TEST(Report, NamesThatAreNoUtf8StillMakeJson) {
  Plan plan = SmallPlan();
  plan.edges[0].name = "\xff\xfe";
  plan.train.graph.nodes[0].name = "\xc3";
  Json(llvm::cantFail(MakeMemoryReport(plan, 1)));
}

TEST(Report, AnEmptyPlanHasOne) {
  const MemoryReport report = llvm::cantFail(MakeMemoryReport(Plan(), 1));
  EXPECT_EQ(Json(report).getInteger("peak_bytes"), 0);
  EXPECT_TRUE(Contains(ReportText(report), "peak"));
  EXPECT_TRUE(Contains(ReportHtml(report), "</html>"));
}

TEST(Report, TheReportOfAnImpossibleBatchIsAnError) {
  EXPECT_NE(llvm::toString(MakeMemoryReport(SmallPlan(), 0).takeError()), "");
}

TEST(Explain, SaysWhoReadsWhyAndHowMuch) {
  const std::string expected =
      "x: read by fc/grad_w.\n"
      "  Why: the weight gradient of 'fc' multiplies by it.\n"
      "  Form: uniform4,g256, 4.09 bits an element; 512 B -> 96 B.\n";
  const Plan plan = SmallPlan();
  EXPECT_EQ(ExplainEdges(plan, 2, ""), expected);
  EXPECT_EQ(ExplainEdges(plan, 2, "fc/*"), expected);
  EXPECT_EQ(ExplainEdges(plan, 2, "y*"), "No saved-activation edge matches 'y*'.\n");
  EXPECT_EQ(ExplainEdges(plan, 2, "["), "No saved-activation edge matches '['.\n");
}

}  // namespace
}  // namespace act
