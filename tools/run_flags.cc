#include "tools/run_flags.h"

#include <initializer_list>
#include <string_view>

#include "runtime/data/data_spec.h"
#include "tools/device.h"
#include "tools/run_log.h"
#include "tools/saving.h"

namespace act {
namespace {

// What is wrong with the text of a flag that names data files. Whether there are such files is found later.
std::string CheckData(const std::string& flag, const std::string& text) {
  if (text.empty()) return "";
  llvm::Expected<DataSpec> spec = DataSpec::Parse(flag, text);
  if (spec) return "";
  std::string wrong = llvm::toString(spec.takeError());
  const std::string_view hint = "\nhint: ";  // which UsageError writes itself
  if (const size_t at = wrong.find(hint); at != std::string::npos) wrong.replace(at, hint.size(), "\n");
  return wrong;
}

}  // namespace

std::string CheckUsage(const RunFlags& f) {
  if (f.plan.empty()) return "no plan is given\nactrun PLAN --batch=N; --help lists all flags";
  if (f.batch.getNumOccurrences() && f.batch < 1) return "--batch: a batch has at least one sample";
  if (f.threads.getNumOccurrences() && (f.threads < 1 || f.threads > 4096))
    return "--threads: expected 1 to 4096";
  if (!IsDeviceName(f.device))
    return std::string("--device: expected ") + kDeviceNames + ", found '" + f.device + "'";
  if (!IsFloatMathName(f.float_math))
    return std::string("--fpmath: expected ") + kFloatMathNames + ", found '" + f.float_math + "'";
  if (f.device == "cpu" && !f.dump_kernels.empty())
    return "--dump-kernels: only a GPU's kernels are compiled";
  if (f.device == "cpu" && f.float_math != "f32")
    return "--fpmath: only a GPU has tf32; actc --fpmath chooses the processor's arithmetic";
  if (f.steps.getNumOccurrences() && f.steps < 1) return "--steps: expected at least 1";
  if (f.epochs.getNumOccurrences() && f.epochs < 1) return "--epochs: expected at least 1";
  if (f.adapt_every.getNumOccurrences() && f.adapt_every < 1) return "--adapt-every: expected at least 1";
  if (f.adapt_every > 0 && f.data.empty())
    return "--adapt-every: needs --data; one fixed batch does not tell what others need";
  if (const std::string wrong = f.hyper.CheckRanges(); !wrong.empty()) return wrong;
  if (!f.inputs.empty() && !f.data.empty()) return "--inputs and --data: give one of them";
  if (!f.eval_data.empty() && f.data.empty()) return "--eval-data: needs --data, whose epochs it follows";
  if (f.epochs > 0 && f.data.empty())
    return "--epochs: needs --data; without it there are steps, but no epochs";
  if (const std::string wrong = CheckData("--data", f.data); !wrong.empty()) return wrong;
  if (const std::string wrong = CheckData("--eval-data", f.eval_data); !wrong.empty()) return wrong;
  if (const std::string wrong = CheckSavingUsage(f); !wrong.empty()) return wrong;
  if (const std::string wrong = f.measurement.CheckUsage(); !wrong.empty()) return wrong;
  if (f.measurement.Requested()) {
    for (const llvm::cl::Option* other : std::initializer_list<const llvm::cl::Option*>{
             &f.steps, &f.epochs, &f.adapt_every, &f.eval_data, &f.save, &f.export_onnx, &f.dump_step,
             &f.profile, &f.log, &f.report_html, &f.patience})
      if (other->getNumOccurrences())
        return "--" + other->ArgStr.str() + ": belongs to training; --variance and --calibrate do not train";
  }
  if (const std::string wrong = CheckRunLogUsage(f); !wrong.empty()) return wrong;
  if (!f.verbose.empty() && f.verbose != "dispatch")
    return "--verbose: expected dispatch, found '" + f.verbose + "'";
  return "";
}

}  // namespace act
