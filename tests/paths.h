// Where the checkout and the build lie. Only paths.cc is compiled with these paths, so that a compiler cache serves
// every other file of a clone in another folder.
#pragma once

#include <string>

namespace act {

std::string SourceFolder();    // the checkout
std::string GoldenFolder();    // tests/golden of it
std::string TestDataFolder();  // tests/data
std::string ModelsFolder();    // models

std::string BuildFolder();
std::string BinFolder();     // of the tools, in the build
std::string PluginFolder();  // of what tests/plugins is built to

// The library of the card that a processor plays (tests/fake_cuda).
std::string FakeCudaPath();
// That which makes calls of the system fail (tests/faults).
std::string FailCallPath();

}  // namespace act
