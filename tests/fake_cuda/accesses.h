// How well warps use memory: the 32-byte sectors that their requests touch, against the least that would do.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

namespace act::fake {

// Of one kernel, over all launches that were watched.
struct AccessCounts {
  int64_t launches = 0;
  int64_t requests = 0;       // a warp's execution of one Load or Store
  int64_t sectors = 0;        // distinct sectors that a request touches, summed
  int64_t ideal_sectors = 0;  // those that its distinct bytes would fill, summed
};

using AccessStatistics = std::map<std::string, AccessCounts>;  // by kernel

// The accesses of one warp's lanes. The n-th access of each lane at the same place of the code are one
// request.
class WarpAccesses {
 public:
  void Add(uint32_t lane, const void* place, const void* address, uint32_t bytes);
  // Adds what was seen to `counts`, and begins anew.
  void CountInto(AccessCounts& counts);

 private:
  static constexpr uint32_t kLanes = 32;

  struct Request {
    uint32_t lanes = 0;  // those that take part
    uint64_t addresses[kLanes];
  };
  struct Place {
    uint32_t bytes = 0;          // of an access
    uint32_t done[kLanes] = {};  // accesses of each lane
    std::vector<Request> requests;
  };
  static void Count(const Request& request, uint32_t bytes, AccessCounts& counts);

  std::unordered_map<const void*, Place> places_;
};

}  // namespace act::fake
