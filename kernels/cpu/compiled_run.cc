#include "kernels/cpu/compiled_run.h"

#include <algorithm>
#include <map>
#include <utility>

namespace act {
namespace {

// A step alone gains nothing.
constexpr size_t kFewestSteps = 2;

class Compiler {
 public:
  Compiler(RunIsa isa, const KernelSite& site, const FusedLoop& loop) : isa_(isa), site_(site), loop_(loop) {}

  std::vector<CompiledRun> Compile() {
    std::vector<CompiledRun> runs;
    for (size_t first = 0; first < loop_.steps.size();) {
      size_t last = first;
      while (last < loop_.steps.size() && CanBeIn(loop_.steps[last])) ++last;
      std::optional<CompiledRun> run;
      // Fewer steps need fewer registers.
      for (; last - first >= kFewestSteps && !run; --last) run = Of(first, last);
      first = run ? run->last : std::max(last, first) + 1;
      if (!run) continue;
      streams_ += run->streams.size();
      runs.push_back(*std::move(run));
    }
    return runs;
  }

 private:
  const LoopRegister& reg(int32_t r) const { return loop_.registers[static_cast<size_t>(r)]; }

  bool CanBeIn(const Step& step) const {
    const auto reads = step.Read();
    const auto by_element = [this](int32_t r) {
      return r < 0 || reg(r).place != Place::kRow || loop_.one_row;
    };
    if (!std::all_of(reads.begin(), reads.end(), by_element)) return false;
    const auto tensor = static_cast<size_t>(step.tensor);
    switch (step.kind) {
      case StepKind::kApply:
        return reg(step.reg).place == Place::kBuffer && HasRunCode(step.instr);
      case StepKind::kRead: {
        const ReadPattern& pattern = loop_.reads[tensor];
        return site_.inputs[tensor].dtype == DType::kBFloat16 && pattern.extents.size() == 1 &&
               pattern.strides.back() == 1;
      }
      case StepKind::kDecode:
        return PlaneFormOf(loop_.inputs[tensor].codec, step.mask).has_value();
      case StepKind::kStore: {
        const DType type = site_.outputs[tensor].dtype;
        return type == DType::kBFloat16 || type == DType::kFloat32;
      }
      case StepKind::kSum:
        return SumOf(step).scratch >= 0;
      default:
        return false;
    }
  }

  const SumOutput& SumOf(const Step& step) const {
    return *std::find_if(loop_.sums.begin(), loop_.sums.end(),
                         [&](const SumOutput& sum) { return sum.output == step.tensor; });
  }

  // Whether a step outside of [first, last) reads the register.
  bool IsReadOutside(int32_t r, size_t first, size_t last) const {
    for (size_t i = 0; i < loop_.steps.size(); ++i) {
      if (first <= i && i < last) continue;
      const auto reads = loop_.steps[i].Read();
      if (std::find(reads.begin(), reads.end(), r) != reads.end()) return true;
    }
    return false;
  }

  // The code that the step reads, by its number in the run. The numbers and the mask of a tensor are two operands of the
  // node and one code here.
  int32_t CodeOf(const Step& step, const PlaneForm& form, std::vector<RunPlanes>& codes) const {
    const auto tensor = static_cast<size_t>(step.tensor);
    const auto known = std::find_if(codes.begin(), codes.end(), [&](const RunPlanes& planes) {
      const auto other = static_cast<size_t>(planes.tensor);
      return site_.node->inputs[other] == site_.node->inputs[tensor] &&
             loop_.inputs[other].codec == loop_.inputs[tensor].codec && planes.stream == step.stream;
    });
    if (known == codes.end()) {
      codes.push_back({step.tensor, step.stream, form});
      return static_cast<int32_t>(codes.size()) - 1;
    }
    if (known->form.value == PlaneValue::kMask) known->form = form;
    return static_cast<int32_t>(known - codes.begin());
  }

  std::optional<CompiledRun> Of(size_t first, size_t last) {
    CompiledRun run;
    run.first = first;
    run.last = last;
    std::vector<RunInstr> instrs;
    std::vector<StreamType> types;
    std::map<int32_t, int32_t> value_of;                     // of registers
    std::map<std::pair<int32_t, bool>, int32_t> decoded_of;  // of codes, and of their masks
    int32_t values = 0;
    const auto stream = [&](RunStream of, StreamType type) {
      const auto known = std::find(run.streams.begin(), run.streams.end(), of);
      if (known != run.streams.end()) return static_cast<int32_t>(known - run.streams.begin());
      run.streams.push_back(of);
      types.push_back(type);
      return static_cast<int32_t>(types.size()) - 1;
    };
    const auto type_of = [&](int32_t r) {
      const Place place = reg(r).place;
      if (place == Place::kScalar || place == Place::kRow) return StreamType::kSplat;
      const bool in_tensor =
          place == Place::kDirect ||
          std::ranges::any_of(loop_.direct, [r](const DirectStore& direct) { return direct.reg == r; });
      return in_tensor ? StreamType::kTensor : StreamType::kFloat;
    };
    const auto in_memory = [&](int32_t r) { return stream({RunStream::kRegister, r}, type_of(r)); };
    const auto value = [&](int32_t r) {
      if (r < 0) return -1;
      const auto [known, fresh] = value_of.try_emplace(r, values);
      if (fresh) {
        instrs.push_back({.op = RunOp::kLoad, .to = values++, .stream = in_memory(r)});
      }
      return known->second;
    };
    const auto element_type = [](DType type) {
      return type == DType::kBFloat16 ? StreamType::kBFloat16 : StreamType::kTensor;
    };
    for (size_t i = first; i < last; ++i) {
      const Step& step = loop_.steps[i];
      RunInstr instr{.op = RunOp::kApply, .instr = step.instr};
      // Another instruction, and its value.
      const auto next = [&](RunInstr made) {
        made.to = values++;
        instrs.push_back(made);
        return made.to;
      };
      // That value is the register which the step makes.
      const auto made = [&](int32_t number) {
        value_of[step.reg] = number;
        if (IsReadOutside(step.reg, first, last))
          instrs.push_back({.op = RunOp::kStore, .a = number, .stream = in_memory(step.reg)});
      };
      const auto decoded = [&](bool mask) {
        const PlaneForm form = *PlaneFormOf(loop_.inputs[static_cast<size_t>(step.tensor)].codec, mask);
        const int32_t code = CodeOf(step, form, run.codes);
        const auto [known, fresh] = decoded_of.try_emplace({code, mask}, values);
        if (fresh)
          next({.op = RunOp::kDecode,
                .planes = form,
                .stream = stream({RunStream::kCode, code}, StreamType::kCode)});
        return known->second;
      };
      const auto applied = [&](Opcode op, int32_t a, int32_t b = -1, int32_t c = -1) {
        return next({.op = RunOp::kApply, .instr = {ToTileOp(op), false}, .a = a, .b = b, .c = c});
      };
      switch (step.kind) {
        case StepKind::kRead:
          instr.op = RunOp::kLoad;
          instr.stream = stream({RunStream::kOperand, step.tensor}, StreamType::kBFloat16);
          made(next(instr));
          break;
        case StepKind::kDecode: {  // as DecodeEpilogue says
          int32_t number = decoded(step.mask);
          if (step.magnitude) number = applied(Opcode::kAbs, number);
          if (step.a >= 0 && step.b >= 0)
            number = applied(Opcode::kFma, number, value(step.a), value(step.b));
          else if (step.a >= 0)
            number = applied(Opcode::kMul, number, value(step.a));
          else if (step.b >= 0)
            number = applied(Opcode::kAdd, number, value(step.b));
          if (step.keep_positive) number = applied(Opcode::kMul, number, decoded(true));
          made(number);
          break;
        }
        case StepKind::kApply:
          instr.a = value(step.a);
          instr.b = value(step.b);
          instr.c = value(step.c);
          made(next(instr));
          break;
        case StepKind::kStore:
          instr.op = RunOp::kStore;
          instr.a = value(step.reg);
          instr.stream = stream({RunStream::kResult, step.tensor},
                                element_type(site_.outputs[static_cast<size_t>(step.tensor)].dtype));
          instrs.push_back(instr);
          break;
        default:  // kSum
          instr.op = RunOp::kSum;
          instr.a = value(step.reg);
          instr.b = value(step.a);
          instr.stream = stream({RunStream::kSum, static_cast<int32_t>(&SumOf(step) - loop_.sums.data())},
                                StreamType::kFloat);
          instrs.push_back(instr);
      }
    }
    if (streams_ + types.size() > kMostRunStreams || run.codes.size() > kMostRunCodes) return std::nullopt;
    run.block = BlockElements(instrs);
    run.code = RunCode::Make(isa_, instrs, types);
    if (!run.code) return std::nullopt;
    return run;
  }

  const RunIsa isa_;
  const KernelSite& site_;
  const FusedLoop& loop_;
  size_t streams_ = 0;  // of the runs so far
};

std::vector<int64_t> PeriodsOf(const FusedLoop& loop) {
  std::vector<int64_t> periods;
  for (const LoopRegister& reg : loop.registers)
    if (reg.place == Place::kColumn) periods.push_back(reg.period);
  for (const SumOutput& sum : loop.sums) periods.push_back(sum.columns);
  std::sort(periods.begin(), periods.end());
  periods.erase(std::unique(periods.begin(), periods.end()), periods.end());
  return periods;
}

std::vector<int32_t> PlacedRegisters(const FusedLoop& loop) {
  std::vector<bool> used(loop.registers.size()), made_in_result(loop.registers.size());
  const auto mark = [&used](int32_t r) {
    if (r >= 0) used[static_cast<size_t>(r)] = true;
  };
  auto run = loop.runs.begin();
  for (size_t i = 0; i < loop.steps.size(); ++i) {
    if (run != loop.runs.end() && i == run->last) ++run;
    if (run != loop.runs.end() && i >= run->first) continue;
    for (const int32_t r : loop.steps[i].Read()) mark(r);
    mark(loop.steps[i].Made());
  }
  for (const DirectStore& direct : loop.direct) made_in_result[static_cast<size_t>(direct.reg)] = true;
  std::vector<int32_t> placed;
  for (size_t r = 0; r < loop.registers.size(); ++r) {
    const Place place = loop.registers[r].place;
    if (used[r] && (place == Place::kDirect || place == Place::kColumn || made_in_result[r]))
      placed.push_back(static_cast<int32_t>(r));
  }
  return placed;
}

}  // namespace

void CompileRuns(RunIsa isa, const KernelSite& site, FusedLoop& loop) {
  loop.periods = PeriodsOf(loop);
  if (isa != RunIsa::kNone && loop.periods.size() <= kMostPeriods)
    loop.runs = Compiler(isa, site, loop).Compile();
  else
    loop.periods.clear();  // nothing uses them
  loop.placed = PlacedRegisters(loop);
}

}  // namespace act
