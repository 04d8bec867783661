#include "passes/pipeline/frozen_form.h"

#include <algorithm>

namespace act {

const std::vector<FrozenForm>& FrozenForms() {
  // Groups of 4 bits are short: a large weight costs only those beside it.
  static const std::vector<FrozenForm> forms = {{"f32", std::nullopt, 0},
                                                {"bf16", Codec::Cast(kBFloat16), .002},
                                                {"8bit", Codec::Uniform(8, 256, Rounding::kNearest), .03},
                                                {"4bit", Codec::Uniform(4, 64, Rounding::kNearest), 1.8}};
  return forms;
}

const FrozenForm* FindFrozenForm(const std::string& name) {
  const auto& forms = FrozenForms();
  const auto form =
      std::find_if(forms.begin(), forms.end(), [&](const FrozenForm& f) { return f.name == name; });
  return form == forms.end() ? nullptr : &*form;
}

}  // namespace act
