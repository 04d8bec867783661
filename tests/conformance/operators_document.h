// docs/operators.md: what the importer claims, and what the node tests show about it.
#pragma once

#include <map>
#include <string>

#include "tests/conformance/node_test.h"

namespace act::conformance {

// The document's text, made from the results of all node tests by name.
std::string OperatorsDocument(const std::map<std::string, Result>& results);

}  // namespace act::conformance
