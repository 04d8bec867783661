// Files of this folder that the library holds as text (cmake/embed_files.cmake makes the list).
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace act::cuda {

// Path from the project's root, and text: act_machine.h, std/*, cards/*.json.
const std::vector<std::pair<std::string, std::string>>& NvidiaFiles();

}  // namespace act::cuda
