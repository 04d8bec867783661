#include "tests/compiler/op_cases.h"

#include "tests/compiler/exported_attention.h"
#include "tests/compiler/op_cases_conv.h"
#include "tests/compiler/op_cases_determinant.h"
#include "tests/compiler/op_cases_elementwise.h"
#include "tests/compiler/op_cases_gather.h"
#include "tests/compiler/op_cases_grid.h"
#include "tests/compiler/op_cases_image.h"
#include "tests/compiler/op_cases_imported.h"
#include "tests/compiler/op_cases_integer.h"
#include "tests/compiler/op_cases_losses.h"
#include "tests/compiler/op_cases_norms.h"
#include "tests/compiler/op_cases_pooling.h"
#include "tests/compiler/op_cases_recurrent.h"
#include "tests/compiler/op_cases_resize.h"
#include "tests/compiler/op_cases_sequences.h"
#include "tests/compiler/op_cases_structure.h"

namespace act::gradient_case {

const std::vector<OpCase>& AllCases() {
  static const std::vector<OpCase> cases = [] {
    std::vector<OpCase> all;
    for (const auto& family : {UnaryCases(),
                               BinaryCases(),
                               SelectionCases(),
                               ReductionCases(),
                               StructureCases(),
                               GatherCases(),
                               ScatterCases(),
                               SequenceCases(),
                               IntegerCases(),
                               ImportedCases(),
                               MatMulCases(),
                               DeterminantCases(),
                               SoftmaxCases(),
                               AttentionCases(),
                               ExportedAttentionCases(),
                               RecurrentCases(),
                               ConvCases(),
                               PoolCases(),
                               ResizeCases(),
                               ImageCases(),
                               GridCases(),
                               BatchNormCases(),
                               NormCases(),
                               LossCases(),
                               ShareLossCases(),
                               ComputedStatisticsCases()})
      all.insert(all.end(), family.begin(), family.end());
    return all;
  }();
  return cases;
}

}  // namespace act::gradient_case
