// Where threads of a block wait for each other: barriers and collectives.
#include <algorithm>
#include <bit>

#include "tests/fake_cuda/block.h"

namespace act::fake {

const char* NameOf(Collective what) {
  static constexpr const char* kNames[] = {"SyncWarp",  "Ballot",    "a shuffle",
                                           "ReduceMin", "ReduceMax", "ReduceAdd"};
  return kNames[static_cast<size_t>(what)];
}

void BlockRunner::SyncThreads(int line) {
  if (exited_ > 0)
    Fail("SyncThreads at line " + std::to_string(line) + ", but " + std::to_string(exited_) +
         " threads of the block have exited");
  if (at_barrier_ > 0 && line != barrier_line_)
    Fail("SyncThreads at line " + std::to_string(line) + ", but others wait in that at line " +
         std::to_string(barrier_line_));
  barrier_line_ = line;
  if (++at_barrier_ == threads_.size()) {
    at_barrier_ = 0;
    for (uint32_t w = 0; w < warps_.size(); ++w) SetReady(w, warps_[w].lanes);
  }
  WaitForTurn();
}

uint32_t BlockRunner::Meet(Collective what, uint32_t mask, uint32_t value, uint32_t argument) {
  const uint32_t w = current_->number / kLanes, lane = current_->number % kLanes, bit = 1u << lane;
  Warp& warp = warps_[w];
  const auto refuse = [&](const std::string& why) {
    Fail(std::string(NameOf(what)) + " with mask " + Hex(mask) + ": " + why);
  };
  if (!(mask & bit)) refuse("the mask lacks the calling lane");
  if (mask & ~warp.lanes) refuse("the warp has only lanes " + Hex(warp.lanes));
  if (mask & warp.exited) refuse("lanes " + Hex(mask & warp.exited) + " have exited");
  Meeting* meeting = nullptr;
  for (Meeting& m : warp.meetings) {
    if (m.mask == mask && m.what == what) {
      meeting = &m;
    } else if (m.mask & mask & (m.arrived | bit)) {
      refuse("lanes " + Hex(m.arrived) + " wait in " + NameOf(m.what) + " with mask " + Hex(m.mask));
    }
  }
  if (what == Collective::kShuffle && !(mask >> argument & 1))
    refuse("lane " + std::to_string(argument) + ", whose value it reads, is not in it");
  if (!meeting) meeting = &warp.meetings.emplace_back(Meeting{what, mask, 0});
  warp.value[lane] = value;
  warp.argument[lane] = argument;
  meeting->arrived |= bit;
  if (meeting->arrived == mask) {
    Finish(warp, *meeting);
    warp.meetings.erase(warp.meetings.begin() + (meeting - warp.meetings.data()));
    SetReady(w, mask);
  }
  WaitForTurn();
  return warp.value[lane];
}

void BlockRunner::Finish(Warp& warp, const Meeting& meeting) {
  const auto lanes = [&](auto&& f) {
    for (uint32_t left = meeting.mask; left != 0; left &= left - 1)
      f(static_cast<uint32_t>(std::countr_zero(left)));
  };
  if (meeting.what == Collective::kShuffle) {
    uint32_t before[kLanes];
    std::copy(std::begin(warp.value), std::end(warp.value), before);
    lanes([&](uint32_t lane) { warp.value[lane] = before[warp.argument[lane]]; });
    return;
  }
  uint32_t result = meeting.what == Collective::kReduceMin ? ~0u : 0;
  lanes([&](uint32_t lane) {
    const uint32_t v = warp.value[lane];
    switch (meeting.what) {
      case Collective::kBallot:
        result |= v << lane;
        break;
      case Collective::kReduceMin:
        result = std::min(result, v);
        break;
      case Collective::kReduceMax:
        result = std::max(result, v);
        break;
      case Collective::kReduceAdd:
        result += v;
        break;
      case Collective::kSync:
      case Collective::kShuffle:
        break;
    }
  });
  lanes([&](uint32_t lane) { warp.value[lane] = result; });
}

std::string BlockRunner::Deadlock() const {
  std::string text = "no thread can go on:";
  if (at_barrier_ > 0)
    text += " " + std::to_string(at_barrier_) + " of " + std::to_string(threads_.size()) +
            " threads wait in SyncThreads at line " + std::to_string(barrier_line_);
  for (size_t w = 0; w < warps_.size(); ++w)
    for (const Meeting& m : warps_[w].meetings)
      return text + (at_barrier_ > 0 ? "," : "") + " lanes " + Hex(m.arrived) + " of warp " +
             std::to_string(w) + " wait in " + NameOf(m.what) + " for lanes " + Hex(m.mask & ~m.arrived);
  return text;
}

}  // namespace act::fake
