// Codes of values whose samples do not come first, as [T,N,C] of a model with time first.
//
// A code is laid out by samples, and needs them to follow one another in memory. Of such a value they do not.
// But its elements are N times a fixed number, and a code needs blocks of numbers, not samples: so it is
// coded as N equal parts of its memory. A part then holds numbers of several samples. No codec asks to which
// sample a number belongs: it does not matter to the error, which is that of its group. The parts are made
// and joined by reshapes, which copy nothing.
#pragma once

#include <llvm/Support/Error.h>

#include <optional>
#include <string>

#include "compiler/ops/graph_builder.h"

namespace act {

// The shape as which a value of these dims is coded, if that is not its own: the one axis that grows with N
// is a multiple of N and comes first. Nullopt if it is first already, if there is none, or if there are
// several.
std::optional<Dims> InEqualParts(const Dims& dims);

// Whether the value has samples: along its first axis, or in equal parts.
bool HasSamples(const TensorType& type);

// Is the node a reshape that makes equal parts of its operand?
bool MakesEqualParts(const Graph& graph, const Node& node);

// Adds the Compress of a value. Returns its code.
llvm::Expected<ValueId> AddCompress(GraphBuilder& builder, ValueId v, const Attributes& attrs,
                                    const std::string& name);
// Adds the Decompress of such a code. Returns the value, of its own type.
llvm::Expected<ValueId> AddDecompress(GraphBuilder& builder, ValueId code, const TensorType& type,
                                      const Attributes& attrs, const std::string& name);

}  // namespace act
