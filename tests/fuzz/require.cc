#include "tests/fuzz/require.h"

#include <cstdio>
#include <cstdlib>

namespace act::fuzz {

void Fail(std::string_view what) {
  std::fprintf(stderr, "fault: %.*s\n", static_cast<int>(what.size()), what.data());
  std::abort();
}

}  // namespace act::fuzz
