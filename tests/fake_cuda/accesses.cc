#include "tests/fake_cuda/accesses.h"

#include <algorithm>

namespace act::fake {
namespace {

constexpr uint64_t kSectorBytes = 32;

}  // namespace

void WarpAccesses::Add(uint32_t lane, const void* place, const void* address, uint32_t bytes) {
  Place& at = places_[place];
  const uint32_t number = at.done[lane]++;
  if (number == at.requests.size()) at.requests.emplace_back();
  at.requests[number].push_back({reinterpret_cast<uint64_t>(address), bytes});
}

void WarpAccesses::CountInto(AccessCounts& counts) {
  for (auto& [place, at] : places_)
    for (std::vector<Access>& request : at.requests) {
      std::sort(request.begin(), request.end(),
                [](const Access& a, const Access& b) { return a.address < b.address; });
      uint64_t bytes = 0, end = 0, next_sector = 0;
      for (const Access& a : request) {
        const uint64_t a_end = a.address + a.bytes;
        bytes += a_end > end ? a_end - std::max(a.address, end) : 0;
        end = std::max(end, a_end);
        const uint64_t first = std::max(a.address / kSectorBytes, next_sector);
        const uint64_t past = (a_end + kSectorBytes - 1) / kSectorBytes;
        counts.sectors += past > first ? static_cast<int64_t>(past - first) : 0;
        next_sector = std::max(next_sector, past);
      }
      ++counts.requests;
      counts.ideal_sectors += static_cast<int64_t>((bytes + kSectorBytes - 1) / kSectorBytes);
    }
  places_.clear();
}

}  // namespace act::fake
