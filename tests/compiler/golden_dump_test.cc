// What each pass does to a small graph. A file tests/golden_dumps/PASS.txt, or PASS.WHAT.txt, holds
// a graph (graph_text.h), what it is compiled with, and the texts that `actc --print-after` shows
// before and after the pass. tests/golden_dumps/regenerate.sh writes these two texts again; the
// change is reviewed as a diff.
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "compiler/ir/dump.h"
#include "tests/compiler/graph_text.h"
#include "tests/paths.h"

namespace act {
namespace {

const std::string kFolder = SourceFolder() + "/tests/golden_dumps/";
const std::string kBefore = "---- before\n", kAfter = "---- after\n";

std::vector<std::string> Files() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder))
    if (entry.path().extension() == ".txt") files.push_back(entry.path().filename().string());
  std::sort(files.begin(), files.end());
  return files;
}

// "eval.fold-bias.conv.txt" is of the pass eval.fold-bias. The only point in the name of a pass is
// that of "eval.".
std::string PassOf(const std::string& file) {
  const size_t start = file.starts_with("eval.") ? 5 : 0;
  return file.substr(0, file.find('.', start));
}

std::string Contents(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The part of a file that is written by hand: comments, "option: value" lines, the graph.
struct Request {
  CompileOptions options = testing_step::Checked("L0", "none");  // gradients are outputs
  std::string graph;
};

Request ParseRequest(const std::string& text) {
  Request request;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("#")) continue;
    if (colon == std::string::npos || line.find(" = ") != std::string::npos) {
      request.graph += line + "\n";
      continue;
    }
    const std::string key = line.substr(0, colon), value = line.substr(colon + 2);
    if (key == "level") {
      request.options.level = value;
    } else if (key == "compute") {
      request.options.compute = value == "bf16" ? Compute::kBFloat16 : Compute::kFloat32;
    } else if (key == "optimizer") {
      request.options.optimizer = value;
    } else if (key == "group size") {
      request.options.group_size = std::stoll(value);
    } else if (key == "exact") {
      request.options.exact_part = std::stod(value);
    } else if (key == "frozen weights in bits") {
      request.options.frozen_weights = Codec::Uniform(std::stoi(value), 64, Rounding::kNearest);
    } else if (key == "batch") {
      request.options.batch = std::stoll(value);
    } else {
      ADD_FAILURE() << "no such option: " << key;
    }
  }
  return request;
}

// The graph, and the loops over samples that tile-samples makes.
std::string TextOf(const Graph& graph) {
  std::string text = Dump(graph);
  for (const SampleLoop& loop : graph.loops) {
    text += "// for " + std::to_string(loop.tiles) + " tiles of " + std::to_string(loop.least_samples) +
            (loop.tokens > 1 ? " tokens or more:" : " samples or more:");
    for (int64_t i = loop.first; i < loop.last; ++i) text += " " + graph.nodes[static_cast<size_t>(i)].op;
    text += "\n";
  }
  return text;
}

// The texts below "---- before" and "---- after". They are of the first run of the pass that
// changes the graph, or else of its last run.
std::string MakeDumps(const std::string& pass, Request request) {
  ImportResult model = graph_text::Parse(request.graph);
  std::string last = TextOf(model.graph), before, after;
  const std::string imported = last;
  bool eval = false;
  request.options.after_pass = [&](const std::string& done, const Graph& graph) {
    if (!eval && done.starts_with("eval.")) {
      eval = true;
      last = imported;
    }
    const std::string now = TextOf(graph);
    if (done == pass && before == after) {
      before = last;
      after = now;
    }
    last = now;
  };
  Take(Compile(std::move(model), request.options));
  return kBefore + before + kAfter + after;
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// The first few lines that differ, as a diff shows them.
std::string FirstDifference(const std::string& want, const std::string& got) {
  const std::vector<std::string> a = Lines(want), b = Lines(got);
  size_t at = 0;
  while (at < std::min(a.size(), b.size()) && a[at] == b[at]) ++at;
  std::string text = "line " + std::to_string(at + 1) + ":\n";
  for (size_t i = at; i < std::min(a.size(), at + 4); ++i) text += "-" + a[i] + "\n";
  for (size_t i = at; i < std::min(b.size(), at + 4); ++i) text += "+" + b[i] + "\n";
  return text;
}

class GoldenDumps : public ::testing::TestWithParam<std::string> {};

TEST_P(GoldenDumps, AreWhatThePassesMake) {
  const std::string path = kFolder + GetParam(), file = Contents(path);
  const std::string by_hand = file.substr(0, file.find(kBefore));
  const std::string dumps = MakeDumps(PassOf(GetParam()), ParseRequest(by_hand));
  const size_t middle = dumps.find(kAfter);
  EXPECT_TRUE(dumps.substr(kBefore.size(), middle - kBefore.size()) != dumps.substr(middle + kAfter.size()))
      << PassOf(GetParam()) << " does nothing here";
  if (std::getenv("ACT_REGENERATE_GOLDEN_DUMPS")) {
    std::ofstream(path) << by_hand << dumps;
    return;
  }
  EXPECT_TRUE(file == by_hand + dumps)
      << path << ", " << FirstDifference(file, by_hand + dumps)
      << "where that is intended, run tests/golden_dumps/regenerate.sh and review the diff";
}

INSTANTIATE_TEST_SUITE_P(, GoldenDumps, ::testing::ValuesIn(Files()), [](const auto& file) {
  std::string name = file.param.substr(0, file.param.rfind('.'));
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(c); }, '_');
  return name;
});

TEST(GoldenDumpFiles, ShowEachPass) {
  // What these passes find is beside the graph.
  std::set<std::string> shown = {"assign-storage", "expect-variance", "keep-exactly", "mark-losses"};
  for (const std::string& file : Files()) shown.insert(PassOf(file));
  for (const std::string& line : Lines(DescribePasses())) {
    std::string pass;
    std::istringstream(line) >> pass;
    EXPECT_TRUE(shown.count(pass)) << "no tests/golden_dumps/" << pass << ".txt";
  }
}

}  // namespace
}  // namespace act
