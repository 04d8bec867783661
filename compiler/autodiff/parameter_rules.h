// Parameters whose updates differ from those of the others: `--no-decay` and `--lr-factor`.
#pragma once

#include <llvm/Support/Error.h>

#include <map>
#include <string>
#include <vector>

#include "runtime/plan/graph.h"

namespace act {

// Factors of the run's learning rate and weight decay.
struct UpdateFactors {
  double lr = 1, decay = 1;
  bool operator==(const UpdateFactors&) const = default;
};

struct ParameterRule {
  std::string flag;  // as the user wrote it, for messages
  std::string glob;  // over names of parameters (* and ?); empty: those of at most one axis
  UpdateFactors factors;
};

// The factors of `trained` parameters that rules name, by the parameters' names. Where several rules name one, factors
// multiply. Errors: a glob that is none, or a rule that names no parameter that trains.
llvm::Expected<std::map<std::string, UpdateFactors>> FactorsOfParameters(
    const std::vector<ParameterRule>& rules, const Graph& graph, const std::vector<ValueId>& trained);

// A line for the report: how many of `trained` parameters have which factors.
std::string DescribeFactors(const std::map<std::string, UpdateFactors>& factors, size_t trained);

}  // namespace act
