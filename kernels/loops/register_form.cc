#include "kernels/loops/register_form.h"

#include <algorithm>

namespace act {

RegisterForm FormOf(Opcode op, int32_t a, int32_t b, int32_t c, const std::vector<RegisterForm>& forms) {
  bool rows = false, elements = op == Opcode::kDropout, columns = false;
  int64_t period = 1;
  for (int32_t operand : {a, b, c}) {
    if (operand < 0) continue;
    const RegisterForm& form = forms[static_cast<size_t>(operand)];
    rows |= form.varies == Varies::kByRow;
    elements |= form.varies == Varies::kByElement;
    columns |= form.period > 1;
    period = std::max(period, form.period);
  }
  if (op == Opcode::kRowSum || op == Opcode::kRowMax) return {Varies::kByRow, 0};
  if (elements || (rows && columns)) return {Varies::kByElement, 0};
  if (rows) return {Varies::kByRow, 0};
  return {Varies::kNever, period};
}

}  // namespace act
