#include "kernels/nvidia/engine_choice.h"

#include <sstream>

namespace act::cuda {

EngineChoice EngineChoice::Of(const Descriptor& engine, const Descriptor& config) {
  EngineChoice choice;
  for (const int64_t index : engine.Get<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1))
    choice.engine = index;
  for (const Descriptor& knob :
       config.GetParts(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR,
                       CUDNN_KNOB_TYPE_COUNTS)) {
    const auto type =
        knob.Get<cudnnBackendKnobType_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1);
    const auto value = knob.Get<int64_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1);
    if (!type.empty() && !value.empty()) choice.knobs.emplace_back(type[0], value[0]);
  }
  return choice;
}

std::optional<EngineChoice> EngineChoice::Parse(const std::string& text) {
  EngineChoice choice;
  std::istringstream words(text);
  words >> choice.engine;
  for (std::string word; words >> word;) {
    int64_t type = -1, value = -1;
    char k = 0, equals = 0;
    std::istringstream parts(word);
    parts >> k >> type >> equals >> value;
    choice.knobs.emplace_back(type, value);
  }
  return choice.engine >= 0 && choice.Text() == text ? std::optional(choice) : std::nullopt;
}

std::string EngineChoice::Text() const {
  std::string text = std::to_string(engine);
  for (const auto& [type, value] : knobs)
    text += " k" + std::to_string(type) + "=" + std::to_string(value);
  return text;
}

void EngineChoice::SetKnobs(Descriptor* config) const {
  std::vector<Descriptor> choices;
  for (const auto& [type, value] : knobs) {
    const auto named = static_cast<cudnnBackendKnobType_t>(type);
    choices.emplace_back(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    choices.back()
        .Set(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &named)
        .Int64(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, value)
        .Finalize();
  }
  if (!choices.empty()) config->Parts(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, std::move(choices));
}

}  // namespace act::cuda
