// actrun --device: the machine that runs a plan, with its kernels.
#pragma once

#include <llvm/Support/Error.h>

#include <functional>
#include <memory>
#include <string>

#include "runtime/executor/device.h"
#include "runtime/executor/kernel.h"
#include "runtime/plan/prepared.h"
#include "tools/tuning.h"

namespace act {

struct ChosenDevice {
  std::unique_ptr<Device> device;
  // The processor's kernels, where those of another device may call them. Empty on the processor itself.
  std::unique_ptr<KernelRegistry> host_kernels = std::make_unique<KernelRegistry>();
  KernelRegistry kernels;
  std::string note;  // a line for the user, or empty
};

// The values of --device, for messages: "cpu, cuda or auto".
inline constexpr char kDeviceNames[] = "cpu, cuda or auto";
bool IsDeviceName(const std::string& name);
// The values of --fpmath.
inline constexpr char kFloatMathNames[] = "f32, tf32-conv or tf32";
bool IsFloatMathName(const std::string& name);

struct DeviceOptions {
  std::string name;                // a value of --device, or "fake": a processor that plays a card
  std::string float_math = "f32";  // a value of --fpmath
  bool profile = false;
  std::string dump_kernels = {};                // a folder for the sources of a card's kernels; empty: none
  Tuning tuning = Tuning::kOff;                 // of a card's engines
  std::function<void(const std::string&)> say;  // for what takes long
  std::shared_ptr<const Prepared> prepared = nullptr;  // what the plan brings for a card; may be null
};
// "auto" takes a card if there is one, and tells in `note` if there is none.
llvm::Expected<ChosenDevice> OpenDevice(const DeviceOptions& options);

}  // namespace act
