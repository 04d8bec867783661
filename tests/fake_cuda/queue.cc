#include "tests/fake_cuda/queue.h"

#include <utility>

namespace act::fake {

OperationPointer Queue::Add(WorkPointer work, const Operations& after) {
  auto operation = std::make_shared<Operation>();
  if (work->pinned) memory_.HoldPages(work->pinned, work->pinned_bytes, work->hold);
  operation->work = std::move(work);
  for (const OperationPointer& before : after) {
    if (!before->work) continue;
    before->followers.push_back(operation);
    ++operation->waits_for;
  }
  if (operation->waits_for == 0) ready_.push_back(operation);
  return operation;
}

std::string Queue::RunUntil(const Operations& awaited) {
  for (const OperationPointer& operation : awaited)
    while (operation->work) {
      RunOne();
      if (!error_.empty()) DropAll();
    }
  return std::exchange(error_, {});
}

void Queue::RunOne() {
  std::swap(ready_[random_.Below(static_cast<uint32_t>(ready_.size()))], ready_.back());
  const OperationPointer operation = std::move(ready_.back());
  ready_.pop_back();
  Report(operation->work->run());
  Finish(operation);
}

void Queue::Finish(const OperationPointer& operation) {
  const Work& work = *operation->work;
  if (work.pinned) memory_.ReleasePages(work.pinned, work.pinned_bytes, work.hold);
  operation->work = nullptr;
  for (const OperationPointer& follower : operation->followers)
    if (--follower->waits_for == 0) ready_.push_back(follower);
  operation->followers.clear();
}

void Queue::DropAll() {
  while (!ready_.empty()) {
    const OperationPointer operation = std::move(ready_.back());
    ready_.pop_back();
    Finish(operation);
  }
}

}  // namespace act::fake
