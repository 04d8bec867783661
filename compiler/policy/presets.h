// Presets: the storage rules of other systems for activation compressed training, for comparison. Each is a
// row of a table over what Policy has; docs/presets.md says where a preset differs from its system.
#pragma once

#include <string>
#include <vector>

#include "compiler/policy/policy.h"

namespace act {

struct Preset {
  const char* name;
  int bits;
  bool products_only;  // codes only what convolutions and matrix products read
  StorageRules rules;
  const char* description;  // one sentence
};

const std::vector<Preset>& AllPresets();
// Null where there is none of that name.
const Preset* FindPreset(const std::string& name);
// "actnn-L1, actnn-L2 or gact-L1".
std::string PresetNames();

}  // namespace act
