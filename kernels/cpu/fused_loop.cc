#include "kernels/cpu/fused_loop.h"

#include <algorithm>
#include <map>

#include "kernels/cpu/fused_buffers.h"
#include "kernels/cpu/fused_decode.h"
#include "kernels/loops/loop_program.h"

namespace act {
namespace {

// Builds a FusedLoop. Columns with longer periods than `longest_column` are read per tile instead.
class Builder {
 public:
  Builder(const KernelSite& site, const FusedShape& shape, int64_t longest_column)
      : site_(site), program_(site.node->program), longest_column_(longest_column) {
    loop_.shape = shape;
  }

  FusedLoop Build() {
    Walk();
    const std::vector<LoopOperand> operands = ClassifyOperands(site_, loop_.shape, longest_column_);
    PlaceInputs(operands);
    PlaceConstants();
    const LoopProgram optimized = MakeLoopProgram(program_, operands);
    loop_.registers.resize(optimized.registers.size());
    for (const LoopInstr& i : optimized.instrs)
      PlaceInstr(i, optimized.registers[static_cast<size_t>(i.reg)]);
    readers_ = CountReaders(optimized, program_);
    AddInputSteps();
    for (const LoopInstr& i : optimized.instrs) AddInstr(i);
    AddOutputs();
    EncodeLast();
    DropUnusedReads(loop_);
    ReadLate(loop_);
    FindDirectStores(site_, loop_);
    AllocateBuffers(loop_);
    return std::move(loop_);
  }

 private:
  LoopRegister& reg(int32_t r) { return loop_.registers[static_cast<size_t>(r)]; }
  const ProgramInput& input(size_t i) const { return program_.inputs[i]; }

  void Walk() {
    bool per_sample = false;
    for (const ProgramInput& i : program_.inputs) per_sample |= i.codec.kind != CodecKind::kNone;
    for (const ProgramOutput& o : program_.outputs) per_sample |= o.kind == OutputKind::kEncode;
    for (const Instr& i : program_.instrs) per_sample |= i.op == Opcode::kDropout;
    loop_.walk_samples = per_sample ? loop_.shape.samples : 1;
    loop_.walk_elements = per_sample ? loop_.shape.elements : loop_.shape.count;
    loop_.tile = *TileElements(program_);  // CheckProgram has checked that there is one
    loop_.one_row = program_.row_axes > 0 && loop_.tile == loop_.shape.row;
    loop_.tiles_per_sample = RoundUp(loop_.walk_elements, loop_.tile) / loop_.tile;
    loop_.tiles = loop_.walk_samples * loop_.tiles_per_sample;
    loop_.tail = std::min(loop_.walk_elements, loop_.tile);
    loop_.registers.resize(static_cast<size_t>(program_.Registers()));
    loop_.inputs.resize(program_.inputs.size());
    loop_.reads.resize(program_.inputs.size());
    loop_.outputs.resize(program_.outputs.size());
  }

  void PlaceOnce(LoopRegister& r, int64_t period) {
    r.place = period == 1 ? Place::kScalar : Place::kColumn;
    r.period = period;
    r.scratch = AllocateScratch(loop_, period == 1 ? 1 : period + loop_.tail);
  }

  void PlaceRow(LoopRegister& r) {
    r.place = Place::kRow;
    r.scratch = AllocateScratch(loop_, loop_.tile / loop_.shape.row);
  }

  void PlaceInputs(const std::vector<LoopOperand>& operands) {
    for (size_t i = 0; i < operands.size(); ++i) {
      LoopRegister& r = loop_.registers[i];
      r.input = static_cast<int32_t>(i);
      switch (operands[i].kind) {
        case OperandKind::kCode:
          r.place = Place::kBuffer;
          loop_.inputs[i] = {input(i).codec, LayoutOf(input(i).codec, loop_.shape.elements)};
          break;
        case OperandKind::kElements:
          r.place = Place::kDirect;
          break;
        case OperandKind::kColumn:
          PlaceOnce(r, operands[i].period);
          break;
        case OperandKind::kRow:
          PlaceRow(r);
          break;
        case OperandKind::kBroadcast:
          r.place = Place::kBuffer;
          loop_.reads[i] = PatternOf(site_.inputs[i], loop_.shape);
          break;
      }
    }
  }

  void PlaceConstants() {
    loop_.first_constant = program_.FirstConstant();
    for (size_t i = 0; i < program_.constants.size(); ++i) {
      PlaceOnce(reg(program_.FirstConstant() + static_cast<int32_t>(i)), 1);
      loop_.constants.push_back(ConstantAt(program_.constants[i], site_.whole_batch));
    }
  }

  void PlaceInstr(const LoopInstr& instr, const RegisterForm& form) {
    if (form.varies == Varies::kByElement)
      reg(instr.reg).place = Place::kBuffer;
    else if (form.varies == Varies::kByRow)
      PlaceRow(reg(instr.reg));
    else
      PlaceOnce(reg(instr.reg), form.period);
  }

  void AddInputSteps() {
    for (size_t i = 0; i < program_.inputs.size(); ++i) {
      const LoopRegister& r = loop_.registers[i];
      Step step;
      step.reg = step.tensor = static_cast<int32_t>(i);
      step.kind = input(i).codec.kind != CodecKind::kNone ? StepKind::kDecode
                  : r.place == Place::kRow                ? StepKind::kReadRow
                                                          : StepKind::kRead;
      step.stream = input(i).stream;
      step.mask = input(i).mask;
      if (r.place == Place::kBuffer || r.place == Place::kRow) loop_.steps.push_back(step);
    }
  }

  void AddInstr(const LoopInstr& instr) {
    Step step;
    step.kind = instr.IsDropout()     ? StepKind::kDropout
                : instr.IsReduction() ? StepKind::kReduce
                                      : StepKind::kApply;
    step.instr = instr.instr;
    step.reg = instr.reg;
    const bool by_element = reg(instr.reg).place == Place::kBuffer && !loop_.one_row;
    const auto operand = [&](int32_t r) {
      return instr.IsReduction() ? Elements(r) : by_element ? Spread(r) : r;
    };
    step.a = operand(instr.a);
    step.b = operand(instr.b);
    step.c = operand(instr.c);
    step.probability = instr.probability;
    step.stream = instr.stream;
    if (DecodeInto(step, *site_.node, readers_, loop_)) return;
    (reg(instr.reg).IsOnce() ? loop_.once : loop_.steps).push_back(step);
  }

  // Register r as elements read it: a row's value is spread over the row.
  int32_t Spread(int32_t r) {
    if (r < 0 || reg(r).place != Place::kRow) return r;
    const auto known = spread_.find(r);
    if (known != spread_.end()) return known->second;
    Step step;
    step.kind = StepKind::kSpread;
    step.a = r;
    step.reg = static_cast<int32_t>(loop_.registers.size());
    loop_.registers.push_back({Place::kBuffer});
    loop_.steps.push_back(step);
    return spread_[r] = step.reg;
  }

  // Register r as a register with a value for each element.
  int32_t Elements(int32_t r) { return r >= 0 && reg(r).place == Place::kScalar ? CopyOf(r) : Spread(r); }

  // Copies register r to a buffer before the first step.
  int32_t CopyOf(int32_t r) {
    Step step;
    step.a = r;
    step.reg = static_cast<int32_t>(loop_.registers.size());
    loop_.registers.push_back({Place::kBuffer});
    loop_.steps.insert(loop_.steps.begin(), step);
    return step.reg;
  }

  // A result needs a whole tile, and a scalar is not one. If several results are plain operands, a
  // store of one may overwrite another: then only the first reads its operand in place.
  int32_t ReadableTile(const ProgramOutput& output) {
    if (output.kind == OutputKind::kRowStore) return output.reg;
    if (reg(output.reg).place == Place::kRow) return Spread(output.reg);
    const Place place = reg(output.reg).place;
    const bool stores_operand = output.kind == OutputKind::kStore && place == Place::kDirect;
    const bool copy = place == Place::kScalar || (stores_operand && stores_operand_);
    stores_operand_ = stores_operand_ || stores_operand;
    return copy ? CopyOf(output.reg) : output.reg;
  }

  void AddOutputs() {
    for (size_t i = 0; i < program_.outputs.size(); ++i) {
      const ProgramOutput& output = program_.outputs[i];
      Step step;
      step.reg = ReadableTile(output);
      step.tensor = static_cast<int32_t>(i);
      step.stream = output.stream;
      if (output.kind == OutputKind::kStore) {
        step.kind = StepKind::kStore;
      } else if (output.kind == OutputKind::kEncode) {
        step.kind = StepKind::kEncode;
        loop_.outputs[i] = {output.codec, LayoutOf(output.codec, loop_.shape.elements)};
      } else if (output.kind == OutputKind::kRowStore) {
        step.kind = StepKind::kRowStore;
      } else {
        step.kind = StepKind::kSum;
        AddSum(static_cast<int32_t>(i));
        if (SumProduct(step)) continue;
      }
      InsertOutput(step);
    }
    for (SumOutput& sum : loop_.sums) {
      sum.workspace = RoundUp(loop_.workspace_bytes, 64);
      loop_.workspace_bytes =
          sum.workspace + loop_.parts * sum.columns * static_cast<int64_t>(sizeof(double));
    }
  }

  // A product that only a sum reads is not stored: the sum multiplies and adds in one step.
  bool SumProduct(Step sum) {
    const auto product = std::find_if(loop_.steps.begin(), loop_.steps.end(), [&sum](const Step& s) {
      return s.reg == sum.reg && s.kind == StepKind::kApply && s.instr.op == ToTileOp(Opcode::kMul) &&
             !s.instr.relu;
    });
    const auto is_tile = [this](int32_t r) {
      return reg(r).place != Place::kScalar && reg(r).place != Place::kRow;
    };
    if (product == loop_.steps.end() || readers_[static_cast<size_t>(sum.reg)] != 1 || !is_tile(product->a) ||
        !is_tile(product->b))
      return false;
    sum.reg = product->a;
    sum.a = product->b;
    *product = sum;
    return true;
  }

  // Stores come last, those of operands first: the written tensor may be an operand that a later
  // step still reads. The other results follow the step that makes their register, while it is in
  // the first-level cache.
  void InsertOutput(const Step& step) {
    const auto is_store = [](const Step& s) { return s.kind == StepKind::kStore; };
    const auto makes = [&step](const Step& s) { return s.reg == step.reg && s.kind < StepKind::kStore; };
    auto at = loop_.steps.end();
    if (step.kind == StepKind::kStore) {
      if (reg(step.reg).place == Place::kDirect)
        at = std::find_if(loop_.steps.begin(), loop_.steps.end(), is_store);
    } else {
      const auto maker = std::find_if(loop_.steps.begin(), loop_.steps.end(), makes);
      at = maker == loop_.steps.end() ? loop_.steps.begin() : maker + 1;
    }
    loop_.steps.insert(at, step);
  }

  // An encode would cut the steps that run as one pass. The tile that it reads is the loop's own memory, which no store
  // overwrites.
  void EncodeLast() {
    std::stable_partition(loop_.steps.begin(), loop_.steps.end(), [this](const Step& step) {
      return step.kind != StepKind::kEncode || reg(step.reg).place != Place::kBuffer;
    });
  }

  void AddSum(int32_t output) {
    SumOutput sum;
    sum.output = output;
    sum.columns = site_.outputs[static_cast<size_t>(output)].elements;
    const int64_t parts = std::max<int64_t>(1, std::min(CpuTarget().LoopSumParts(sum.columns), loop_.tiles));
    loop_.parts = loop_.parts == 0 ? parts : std::min(loop_.parts, parts);
    if (sum.columns <= longest_column_) sum.scratch = AllocateScratch(loop_, sum.columns + loop_.tail);
    loop_.sums.push_back(sum);
  }

  const KernelSite& site_;
  const Program& program_;
  const int64_t longest_column_;
  std::map<int32_t, int32_t> spread_;  // row register -> the buffer over which it is spread
  std::vector<int32_t> readers_;       // of each register: instructions and results
  bool stores_operand_ = false;        // a result is an operand of the node
  FusedLoop loop_;
};

}  // namespace

std::optional<FusedLoop> MakeFusedLoop(const KernelSite& site, const FusedShape& shape, std::string* why) {
  const auto refuse = [why](std::string reason) {
    if (why) *why = std::move(reason);
    return std::nullopt;
  };
  // Shorter columns get scratch space first: they gain more by it.
  for (int64_t longest_column : {8192, 2048, 1}) {
    FusedLoop loop = Builder(site, shape, longest_column).Build();
    if (static_cast<int64_t>(loop.registers.size()) > kMaxLoopRegisters)
      return refuse("more than " + std::to_string(kMaxLoopRegisters) + " registers");
    if (loop.scratch_floats > kScratchFloats) continue;
    if (loop.workspace_bytes > site.workspace_bytes)
      return refuse("partial sums need " + std::to_string(loop.workspace_bytes) + " bytes of workspace");
    return loop;
  }
  return refuse("too many live registers for a thread's scratch space");
}

}  // namespace act
