// How well warps use memory: the 32-byte sectors that their requests touch, against the least that would do.
#pragma once

#include <cstdint>
#include <map>
#include <string>
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
  struct Access {
    uint64_t address;
    uint32_t bytes;
  };
  struct Place {
    uint32_t done[32] = {};  // accesses of each lane
    std::vector<std::vector<Access>> requests;
  };
  std::map<const void*, Place> places_;
};

}  // namespace act::fake
