#include "runtime/memory/packing_validate.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>

namespace act {
namespace {

std::string Text(int64_t value) { return std::to_string(value); }

std::string Describe(const PackingProblem& problem, const Packing& packing, size_t i) {
  const Buffer& buffer = problem.buffers[i];
  return "buffer " + std::to_string(i) + " (ops [" + Text(buffer.lower) + ", " + Text(buffer.upper) + "), " +
         Text(buffer.size) + " bytes at offset " + Text(packing.offsets[i]) + ")";
}

bool OccupiesBytes(const Buffer& buffer) { return buffer.size > 0 && buffer.lower < buffer.upper; }

// The size rounded up to the alignment; nullopt if that does not fit.
std::optional<int64_t> OwnedBytes(const Buffer& buffer) {
  const int64_t blocks = buffer.size / buffer.alignment + (buffer.size % buffer.alignment != 0 ? 1 : 0);
  int64_t bytes = 0;
  if (__builtin_mul_overflow(blocks, buffer.alignment, &bytes)) return std::nullopt;
  return bytes;
}

// What is wrong with buffer i alone; otherwise sets the end of its bytes.
std::optional<std::string> CheckAlone(const PackingProblem& problem, const Packing& packing, size_t i,
                                      int64_t& end) {
  const Buffer& buffer = problem.buffers[i];
  const int64_t offset = packing.offsets[i];
  const auto error = [&](const std::string& what) { return Describe(problem, packing, i) + ": " + what; };
  if (buffer.size < 0) return error("negative size");
  if (buffer.alignment < 1) return error("alignment " + Text(buffer.alignment) + " is not positive");
  if (offset < 0) return error("negative offset");
  if (offset % buffer.alignment != 0) return error("offset is not a multiple of " + Text(buffer.alignment));
  if (!OccupiesBytes(buffer)) return std::nullopt;
  const std::optional<int64_t> bytes = OwnedBytes(buffer);
  if (!bytes || __builtin_add_overflow(offset, *bytes, &end)) return error("end passes 64 bits");
  if (end > packing.height) return error("ends above the height " + Text(packing.height));
  return std::nullopt;
}

struct Event {
  int64_t time;
  bool starts;
  size_t buffer;
};

// At the same time, ends come before starts, since live ranges are half-open.
bool Earlier(const Event& a, const Event& b) {
  if (a.time != b.time) return a.time < b.time;
  if (a.starts != b.starts) return !a.starts;
  return a.buffer < b.buffer;
}

}  // namespace

std::optional<std::string> ValidatePacking(const PackingProblem& problem, const Packing& packing) {
  const size_t count = problem.buffers.size();
  if (packing.offsets.size() != count) {
    return std::to_string(packing.offsets.size()) + " offsets for " + std::to_string(count) + " buffers";
  }

  std::vector<int64_t> ends(count, 0);
  std::vector<Event> events;
  int64_t height = 0;
  for (size_t i = 0; i < count; ++i) {
    if (auto error = CheckAlone(problem, packing, i, ends[i])) return error;
    const Buffer& buffer = problem.buffers[i];
    if (!OccupiesBytes(buffer)) continue;
    height = std::max(height, ends[i]);
    events.push_back({buffer.lower, true, i});
    events.push_back({buffer.upper, false, i});
  }
  if (height != packing.height) {
    return "height is " + Text(packing.height) + ", but the buffers need " + Text(height) + " bytes";
  }

  // Sweep over time. The live buffers are disjoint, so a new one can only meet its neighbours by
  // offset.
  std::sort(events.begin(), events.end(), Earlier);
  std::map<int64_t, size_t> live;  // offset -> buffer
  for (const Event& event : events) {
    const size_t i = event.buffer;
    if (!event.starts) {
      live.erase(packing.offsets[i]);
      continue;
    }
    const auto clash = [&](size_t other) {
      return Describe(problem, packing, i) + " overlaps " + Describe(problem, packing, other) + " at op " +
             Text(event.time) + " in bytes [" + Text(std::max(packing.offsets[i], packing.offsets[other])) +
             ", " + Text(std::min(ends[i], ends[other])) + ")";
    };
    const auto above = live.lower_bound(packing.offsets[i]);
    if (above != live.end() && above->first < ends[i]) return clash(above->second);
    if (above != live.begin()) {
      const auto below = std::prev(above);
      if (ends[below->second] > packing.offsets[i]) return clash(below->second);
    }
    live.emplace_hint(above, packing.offsets[i], i);
  }
  return std::nullopt;
}

}  // namespace act
