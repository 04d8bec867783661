// Work that waits: operations, each of which runs after some others. Nothing runs until somebody waits
// for it. Then those that may run do so in an order by the seed.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/fake_cuda/memory.h"
#include "tests/fake_cuda/random.h"

namespace act::fake {

// What an operation does, once or at each launch of a graph. `run` returns its error.
struct Work {
  std::function<std::string()> run;
  // Pinned memory that a copy reads or writes, which the host must leave alone until then.
  const std::byte* pinned = nullptr;
  int64_t pinned_bytes = 0;
  Hold hold = Hold::kRead;
};
using WorkPointer = std::shared_ptr<const Work>;

struct Operation {
  WorkPointer work;  // null once it is done
  int waits_for = 0;
  std::vector<std::shared_ptr<Operation>> followers;
};
using OperationPointer = std::shared_ptr<Operation>;
using Operations = std::vector<OperationPointer>;

class Queue {
 public:
  Queue(Memory& memory, Random& random) : memory_(memory), random_(random) {}
  ~Queue() { DropAll(); }
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  // Takes in an operation that runs when all of `after` are done.
  OperationPointer Add(WorkPointer work, const Operations& after);
  // Runs operations until all of `awaited` are done. Returns the first error since the last call, after
  // which the operations that were waiting are dropped.
  std::string RunUntil(const Operations& awaited);
  // An error that the next RunUntil returns.
  void Report(const std::string& error) {
    if (error_.empty()) error_ = error;
  }

 private:
  void RunOne();
  void Finish(const OperationPointer& operation);
  void DropAll();

  Memory& memory_;
  Random& random_;
  Operations ready_;
  std::string error_;
};

// Nodes of a graph. Each names the nodes before it, by position.
struct CapturedNode {
  WorkPointer work;
  std::vector<size_t> after;
};
using CapturedNodes = std::vector<CapturedNode>;

}  // namespace act::fake
