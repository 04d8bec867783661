#include "tests/fake_cuda/options.h"

#include <cstdlib>
#include <filesystem>

namespace act::fake {
namespace {

template <class T>
void Read(const char* name, T& value) {
  if (const char* text = std::getenv(name)) value = static_cast<T>(std::strtoll(text, nullptr, 10));
}

}  // namespace

Options OptionsOfEnvironment() {
  Options o;
  Read("ACT_FAKE_SEED", o.seed);
  Read("ACT_FAKE_CARD_BYTES", o.card_bytes);
  Read("ACT_FAKE_MULTIPROCESSORS", o.multiprocessors);
  Read("ACT_FAKE_DRIVER", o.driver_version);
  Read("ACT_FAKE_NO_DEVICE", o.no_device);
  Read("ACT_FAKE_FAIL_ALLOCATION", o.fail_allocation);
  Read("ACT_FAKE_FAIL_LAUNCH", o.fail_launch);
  Read("ACT_FAKE_STOLEN_BYTES", o.stolen_bytes);
  Read("ACT_FAKE_LIBRARY_WORKSPACE", o.library_workspace_bytes);
  Read("ACT_FAKE_SAMPLE_WORKSPACE", o.sample_workspace_bytes);
  Read("ACT_FAKE_LIBRARY_VERSION", o.library_version);
  Read("ACT_FAKE_ENGINES", o.engines);
  Read("ACT_FAKE_NO_CONVOLUTIONS", o.no_convolutions);
  Read("ACT_FAKE_NO_PRODUCTS", o.no_products);
  const char* cache = std::getenv("ACT_FAKE_CACHE");
  o.cache_folder = cache ? cache : (std::filesystem::temp_directory_path() / "act_fake_cuda").string();
  return o;
}

}  // namespace act::fake
