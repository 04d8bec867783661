#include "kernels/nvidia/card.h"

#include <cctype>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "kernels/nvidia/embedded.h"

namespace act::cuda {
namespace {

// The text after "key": in a flat JSON object, or an empty string.
std::string Field(const std::string& json, const std::string& key) {
  const std::string quoted = '"' + key + '"';
  size_t at = json.find(quoted);
  if (at == std::string::npos) return "";
  at = json.find_first_not_of(" \t\r\n:", at + quoted.size());
  if (at == std::string::npos) return "";
  if (json[at] != '"') return json.substr(at, json.find_first_of(",}\n", at) - at);
  return json.substr(at + 1, json.find('"', at + 1) - at - 1);
}

// cuDNN names these fields in its log where one is missing.
Status Parse(const std::string& json, Card* card) {
  card->name = Field(json, "deviceName");
  if (card->name.empty()) return "it has no \"deviceName\"";
  const auto number = [&](const char* key) { return std::atoll(Field(json, key).c_str()); };
  const int64_t version = number("deviceVer");  // 100 * major + 10 * minor
  card->compute_capability = static_cast<int>(version / 10);
  card->multiprocessors = static_cast<int>(number("multiProcessorCount"));
  card->memory_bytes = number("totalGlobalMem");
  card->l2_bytes = number("l2CacheSize");
  card->shared_bytes = number("maxSharedMemoryPerBlockOptin");
  card->driver_version = static_cast<int>(number("driverVer"));
  for (const char* key : {"deviceVer", "multiProcessorCount", "totalGlobalMem", "l2CacheSize",
                          "maxSharedMemoryPerBlockOptin", "driverVer"})
    if (number(key) <= 0) return std::string("it has no number \"") + key + '"';
  return "";
}

}  // namespace

std::vector<std::string> CardNames() {
  std::vector<std::string> names;
  for (const auto& [path, text] : NvidiaFiles())
    if (const size_t slash = path.rfind('/'); path.ends_with(".json"))
      names.push_back(path.substr(slash + 1, path.size() - slash - 6));
  return names;
}

Status ReadCard(const std::string& name, CardDescription* description) {
  std::string known;
  for (const std::string& card : CardNames()) known += (known.empty() ? "" : ", ") + card;
  for (const auto& [path, text] : NvidiaFiles())
    if (path == "kernels/nvidia/cards/" + name + ".json") description->json = text;
  if (description->json.empty()) {
    std::ifstream file(name);
    std::stringstream text;
    text << file.rdbuf();
    if (!file) return "there is no card and no file " + name + "; known cards: " + known;
    description->json = text.str();
  }
  const Status fault = Parse(description->json, &description->card);
  return fault.empty() ? "" : name + " does not describe a card: " + fault;
}

}  // namespace act::cuda
