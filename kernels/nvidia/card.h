// What is known of a card without having one.
#pragma once

#include <string>
#include <vector>

#include "kernels/cuda/driver.h"

namespace act::cuda {

// A card as a file describes it (kernels/nvidia/cards/README.md).
struct CardDescription {
  Card card;
  std::string json;  // as cuDNN's device properties
};

// The names of the descriptions that the library holds: "a100", "h200".
std::vector<std::string> CardNames();

// `name`: one of CardNames(), or the path of a description.
Status ReadCard(const std::string& name, CardDescription* description);

}  // namespace act::cuda
