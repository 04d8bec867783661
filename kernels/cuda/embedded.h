// The headers that device code may include, as text: kernels/math and kernels/cuda/source. The build
// makes this list (cmake/embed_files.cmake).
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace act::cuda {

// Path from the project's root, and text.
const std::vector<std::pair<std::string, std::string>>& EmbeddedHeaders();

}  // namespace act::cuda
