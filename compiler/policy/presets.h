// Presets: the storage rules of other systems for activation compressed training, for
// comparison. Each is one table row of Policy's fields. docs/presets.md says where a preset
// differs from its system.
#pragma once

#include <string>
#include <vector>

#include "compiler/policy/policy.h"

namespace act {

struct Preset {
  const char* name;
  int bits;
  bool products_only;  // codes only the operands of convolutions and matrix products
  StorageRules rules;
  const char* description;  // one sentence
};

const std::vector<Preset>& AllPresets();
// Null if no preset has this name.
const Preset* FindPreset(const std::string& name);
// "actnn-L1, actnn-L2 or gact-L1".
std::string PresetNames();

}  // namespace act
