#include "compiler/autodiff/parameter_rules.h"

#include <llvm/Support/Format.h>
#include <llvm/Support/GlobPattern.h>
#include <llvm/Support/raw_ostream.h>

#include <utility>

#include "runtime/base/error.h"

namespace act {

llvm::Expected<std::map<std::string, UpdateFactors>> FactorsOfParameters(
    const std::vector<ParameterRule>& rules, const Graph& graph, const std::vector<ValueId>& trained) {
  std::map<std::string, UpdateFactors> factors;
  for (const ParameterRule& rule : rules) {
    auto glob = llvm::GlobPattern::create(rule.glob);
    if (!glob) return MakeError(rule.flag, llvm::toString(glob.takeError()));
    bool used = false;
    for (const ValueId p : trained) {
      const Value& parameter = graph.value(p);
      if (rule.glob.empty() ? parameter.type.rank() > 1 : !glob->match(parameter.name)) continue;
      used = true;
      UpdateFactors& of = factors[parameter.name];
      of.lr *= rule.factors.lr;
      of.decay *= rule.factors.decay;
    }
    if (!used)
      return MakeError(rule.flag, "matches no parameter that trains",
                       "names are those of the model: actplan show PLAN --parameters lists them");
  }
  return factors;
}

std::string DescribeFactors(const std::map<std::string, UpdateFactors>& factors, size_t trained) {
  std::map<std::pair<double, double>, size_t> counts;
  for (const auto& [name, of] : factors) ++counts[{of.lr, of.decay}];
  std::string line;
  llvm::raw_string_ostream out(line);
  for (const auto& [of, count] : counts) {
    out << (out.str().empty() ? "updates: " : "; ") << count << " of " << trained << " parameters";
    if (of.first != 1) out << llvm::format(" with %g times the learning rate", of.first);
    if (of.second == 0) out << (of.first != 1 ? " and" : "") << " without weight decay";
  }
  return counts.empty() ? "" : out.str() + "\n";
}

}  // namespace act
