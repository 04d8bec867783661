// Notes of passes on values, for the passes that follow: which parameters train, which values are
// stored, and why.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/ir/value_map.h"

namespace act {

// The type of a float in memory. Of two values that become one, the later of these is taken.
enum class Precision : uint8_t { kEither, kBFloat16, kFloat32 };

struct ValueMarks {
  // A parameter that training changes: its place in the order of updates.
  int32_t trained = -1;
  std::vector<int32_t> edges;  // stored for the backward pass: its places in PassContext::edges
  // Kept exactly, as are values that operators read as Need::kStatistics.
  bool statistic = false;
  bool kept_exactly = false;   // by Policy::exact_part (keep-exactly)
  // By mark-losses:
  bool of_loss = false;        // no product follows from it
  bool of_steep_loss = false;  // nor from it, and a steep function follows, or has made it
  bool near_steep = false;     // a steep function follows by elementwise operators alone
  bool anchor = false;         // re-runs start from it: it is stored even if it could be computed
  bool kept_finely = false;    // of a segment that could be re-run, and is not (PassContext::rerun_segments)
  bool rebuilt_from = false;   // stored, and the backward pass computes other values from it
  bool low_frequency = false;  // averages over blocks of an image (split-frequencies)
  bool range_code = false;     // numbers of levels over a fixed range (fix-ranges)
  // Made by a derived node that runs in the forward pass, from an operand of a product's gradient.
  // A level that codes only such operands codes this value too. L0 needs no second tensor here, and
  // no level may store more than L0.
  bool from_product_input = false;
  // What ChoosePrecision decided for forward values, and add-gradients for their gradients. The
  // gradients of parameters are float32.
  Precision precision = Precision::kEither;
  // Of an anchor: the nodes that are re-run from it, for --explain.
  std::vector<std::string> computed;

  // Adds the marks of a value that this one replaces.
  void Merge(const ValueMarks& replaced);
};

// The marks of a graph's values. A value without marks reads as one with the defaults. Code that
// replaces or renumbers values must update the marks too. Only Replacements (compiler/ir/replace.h)
// and assign-storage do so.
using Marks = ValueMap<ValueMarks>;

// The parameters that training changes, in the order of their updates.
std::vector<ValueId> TrainedParameters(const Marks& marks);
void MarkTrained(Marks& marks, const std::vector<ValueId>& parameters);

// The value that is stored for each of the first `count` edges; kNoValue if none is.
std::vector<ValueId> StoredValues(const Marks& marks, size_t count);

}  // namespace act
