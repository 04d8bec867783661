// docs/cuda.md lists the kernels of each operator. The list is that of the registry; ACT_WRITE_DOCS=1
// writes it anew.
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "kernels/cpu/registry.h"
#include "kernels/cuda/registry.h"
#include "runtime/plan/runtime_op.h"
#include "tests/paths.h"
#include "tests/unit/cuda_testing.h"

namespace act {
namespace {

const std::string kDocument = SourceFolder() + "/docs/cuda.md";
constexpr char kBegin[] = "<!-- kernels by operator: cuda_support_test -->\n", kEnd[] = "<!-- end -->\n";

std::string Table() {
  KernelRegistry host, card;
  RegisterCpuKernels(host);
  const cuda::CudaContext& context = TheTestCard().context();
  cuda::RegisterCudaKernels(card, context, host);
  std::string table = "| operator | its kernels |\n|---|---|\n", on_host = "On the host alone (`cuda.host`):";
  for (const auto& [op, entries] : card.all()) {
    std::string rows;
    for (const KernelEntry& entry : entries)
      if (entry.name != "cuda.host") rows += "| " + (rows.empty() ? op : "") + " | `" + entry.name + "` |\n";
    table += rows;
    if (!rows.empty()) continue;
    constexpr size_t kLine = 100;
    const bool is_full = on_host.size() - on_host.rfind('\n') - 1 + op.size() > kLine;
    on_host += (is_full ? "\n" : " ") + op + ",";
  }
  on_host.back() = '.';
  return table + "\n" + on_host + "\n";
}

TEST(CudaSupport, TheTableOfTheDocumentIsThatOfTheRegistry) {
  std::stringstream read;
  read << std::ifstream(kDocument).rdbuf();
  const std::string document = read.str();
  const size_t begin = document.find(kBegin), end = document.find(kEnd);
  ASSERT_TRUE(begin != std::string::npos && end != std::string::npos && begin < end) << kDocument;
  const size_t first = begin + sizeof kBegin - 1;
  const std::string table = Table();
  if (std::getenv("ACT_WRITE_DOCS")) {
    std::ofstream(kDocument) << document.substr(0, first) << table << document.substr(end);
    return;
  }
  EXPECT_EQ(document.substr(first, end - first), table) << "ACT_WRITE_DOCS=1 writes it";
}

}  // namespace
}  // namespace act
