// oneDNN primitives with their memory objects. Both are made once; a run only sets pointers.
#pragma once

#include <omp.h>

#include <algorithm>

#include <cstddef>
#include <dnnl.hpp>
#include <string>
#include <vector>

#include "kernels/site/lambda_kernel.h"
#include "runtime/executor/kernel.h"

namespace act {

// Shared by all oneDNN kernels of a registry.
struct DnnlContext {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
};

// OpenMP runs with `threads` threads inside the scope. oneDNN's scratch grows with the number of
// threads when a primitive is made, and the primitive must then run with that number.
class ThreadScope {
 public:
  explicit ThreadScope(int threads) : before_(omp_get_max_threads()) { omp_set_num_threads(threads); }
  ~ThreadScope() { omp_set_num_threads(before_); }
  ThreadScope(const ThreadScope&) = delete;
  ThreadScope& operator=(const ThreadScope&) = delete;

 private:
  int before_;
};

// A primitive and its arguments.
class DnnlCall {
 public:
  DnnlCall() = default;
  DnnlCall(const DnnlContext& context, dnnl::primitive primitive)
      : stream_(context.stream), engine_(context.engine), primitive_(std::move(primitive)) {}

  bool empty() const { return !primitive_; }
  // Adds argument `arg` (DNNL_ARG_...) and returns its slot.
  size_t Bind(int arg, const dnnl::memory::desc& desc) {
    memories_.emplace_back(desc, engine_, static_cast<void*>(DNNL_MEMORY_NONE));
    args_.push_back({arg, memories_.back().get()});
    return memories_.size() - 1;
  }
  void Set(size_t slot, const void* data) { memories_[slot].set_data_handle(const_cast<void*>(data)); }
  // Runs the primitive. Returns an empty string, or oneDNN's error.
  std::string Run() const {
    const dnnl_status_t status =
        dnnl_primitive_execute(primitive_.get(), stream_.get(), static_cast<int>(args_.size()), args_.data());
    return status == dnnl_success ? "" : "oneDNN failed with status " + std::to_string(status);
  }

 private:
  dnnl::stream stream_;
  dnnl::engine engine_;
  dnnl::primitive primitive_;
  std::vector<dnnl::memory> memories_;
  std::vector<dnnl_exec_arg_t> args_;
};

// Bytes of a memory object in the workspace, rounded up so that the next one starts aligned.
inline int64_t AlignedBytes(const dnnl::memory::desc& desc) {
  return (static_cast<int64_t>(desc.get_size()) + 63) / 64 * 64;
}

// Moves `desc` on to oneDNN's first fast implementation for which `bytes(desc)`, its workspace, is at most `limit`.
// "ref" is none: it is slower than our reference kernels, and comes last. False: there is none, and *reason tells what
// the last one lacked.
template <class Desc, class Bytes>
bool MoveToFirstThatFits(Desc& desc, Bytes bytes, int64_t limit, std::string* reason) {
  do {
    const std::string name = desc.impl_info_str();
    if (name.rfind("ref", 0) == 0) return false;
    const int64_t needed = bytes(desc);
    if (needed <= limit) return true;
    *reason = name + " " + TooLittleWorkspace(needed, limit);
  } while (desc.next_impl());
  return false;
}

// Thread counts to try for a primitive whose scratch must fit: all, then half, down to one.
inline std::vector<int> ThreadLadder(int threads) {
  std::vector<int> ladder;
  for (int t = std::max(threads, 1); t >= 1; t /= 2) ladder.push_back(t);
  return ladder;
}

}  // namespace act
