#include "kernels/cuda/fused_plan.h"

#include <algorithm>
#include <numeric>

#include "runtime/base/target.h"
#include "runtime/codec/code_samples.h"

namespace act::cuda {
namespace {

constexpr int kLane = 32, kMostTeams = 8;
// Elements that a warp works on at a time: with codes, a block of 16-bit random numbers. Without, fewer where
// several operands take registers.
constexpr int kPiece = 256, kPieceOfManyOperands = 128;
constexpr int64_t kManyOperands = 3;
// Columns of up to this many elements are read by their number, as in the processor's loops: what is computed
// once, and so how multiplications and additions are contracted, is the same for both.
constexpr int64_t kLongestColumn = 8192;
// Bytes of shared memory.
constexpr int64_t kStartsBytes = 512;  // DitherStarts, for each warp and stream

bool HasCode(const ProgramOutput& output) { return output.kind == OutputKind::kEncode; }

bool DrawsStarts(const Codec& codec) { return codec.HasLevels() && codec.rounding == Rounding::kDither; }

class Planner {
 public:
  Planner(const KernelSite& site, FusedShape shape) : site_(site), program_(site.node->program) {
    loop_.program = &program_;
    loop_.shape = std::move(shape);
  }

  std::optional<CudaLoop> Plan(std::string* why) {
    loop_.operands = ClassifyOperands(site_, loop_.shape, kLongestColumn);
    for (size_t i = 0; i < loop_.operands.size(); ++i)
      loop_.patterns.push_back(loop_.operands[i].kind == OperandKind::kBroadcast
                                   ? PatternOf(site_.inputs[i], loop_.shape)
                                   : ReadPattern());
    loop_.instructions = MakeLoopProgram(program_, loop_.operands);
    FindUsed();
    FindStreams();
    PlacePieces();
    FindSums();
    PlaceSamples();
    if (!FitShared()) {
      *why = "its sums and random numbers need " + std::to_string(loop_.shared_bytes) +
             " bytes of shared memory";
      return std::nullopt;
    }
    if (!CutSums()) {
      *why = "the workspace of " + std::to_string(site_.workspace_bytes) + " bytes holds no partial sums";
      return std::nullopt;
    }
    return std::move(loop_);
  }

 private:
  template <class F>
  void ForEachCodec(const F& f) const {
    for (const ProgramInput& input : program_.inputs)
      if (input.codec.kind != CodecKind::kNone) f(input.codec);
    for (const ProgramOutput& output : program_.outputs)
      if (HasCode(output)) f(output.codec);
  }

  void FindUsed() {
    loop_.used.assign(program_.inputs.size(), false);
    const auto use = [this](int32_t reg) {
      if (reg >= 0 && reg < program_.FirstConstant()) loop_.used[static_cast<size_t>(reg)] = true;
    };
    for (const ProgramOutput& output : program_.outputs) use(output.reg);
    for (const LoopInstr& x : loop_.instructions.instrs)
      for (const int32_t reg : {x.a, x.b, x.c}) use(reg);
  }

  void FindStreams() {
    const auto name = [](const char* kind, size_t i) { return kind + std::to_string(i); };
    for (size_t i = 0; i < program_.inputs.size(); ++i)
      if (const ProgramInput& input = program_.inputs[i]; input.codec.HasLevels() && loop_.used[i])
        loop_.streams.push_back({name("in", i), input.stream, DrawsStarts(input.codec) && !input.mask});
    for (size_t i = 0; i < program_.outputs.size(); ++i)
      if (const ProgramOutput& output = program_.outputs[i]; HasCode(output) && output.codec.HasLevels())
        loop_.streams.push_back({name("out", i), output.stream, DrawsStarts(output.codec)});
    for (const LoopInstr& x : loop_.instructions.instrs)
      if (x.IsDropout())
        loop_.streams.push_back(
            {name("r", static_cast<size_t>(x.reg - program_.FirstInstr())), x.stream, false});
  }

  bool HasCodes() const {
    bool has = false;
    ForEachCodec([&has](const Codec&) { has = true; });
    return has;
  }

  // A warp holds whole groups of what is encoded or decoded.
  void PlacePieces() {
    ForEachCodec([this](const Codec& codec) {
      loop_.piece = std::max<int>(loop_.piece, codec.group_size);
      // The group's codes, and its payload, whose planes may each begin a word of its own.
      if (CodePackingOf(codec).codes > 1)
        loop_.stage_bytes = std::max(loop_.stage_bytes, 2 * codec.group_size + 128);
    });
    int64_t arrays = 0;
    for (size_t i = 0; i < loop_.operands.size(); ++i)
      arrays += loop_.used[i] && loop_.operands[i].kind != OperandKind::kColumn;
    const bool many = arrays >= kManyOperands;
    loop_.piece = std::max(loop_.piece, HasCodes() || !many ? kPiece : kPieceOfManyOperands);
    loop_.rows = program_.row_axes > 0;
    loop_.unit = loop_.rows ? *TileElements(program_) : loop_.piece;
    loop_.one_row = loop_.rows && loop_.unit == loop_.shape.row;
    loop_.teams = loop_.rows ? 1 : kMostTeams;
  }

  void PlaceSamples() {
    bool needs_samples = HasCodes();
    for (const Instr& instr : program_.instrs) needs_samples |= instr.op == Opcode::kDropout;
    const bool fixed = CodeSamplesOf(program_.space).elements.IsFixed();
    const int64_t columns = LongestSum();
    loop_.by_sample = needs_samples || (fixed && loop_.shape.elements % loop_.unit == 0);
    loop_.samples = loop_.by_sample ? loop_.shape.samples : 1;
    loop_.elements = loop_.by_sample ? loop_.shape.elements : loop_.shape.count;
    // A sum of many columns can be cut into slices where no unit goes from its last column on to its first.
    if (!needs_samples && HasFewParts(columns)) {
      loop_.by_sample = true;
      loop_.samples = loop_.shape.count / columns;
      loop_.elements = columns;
    }
    loop_.walk.elements = loop_.elements;
    loop_.walk.samples = loop_.samples;
    loop_.walk.units = CeilDiv(loop_.elements, loop_.unit);
    loop_.walk.units_per_sample =
        std::max<int64_t>(loop_.walk.units, 1);  // it divides, in an empty space too
  }

  void FindSums() {
    for (size_t i = 0; i < program_.outputs.size(); ++i)
      if (program_.outputs[i].kind == OutputKind::kSum)
        loop_.sums.push_back({.output = static_cast<int32_t>(i), .columns = site_.outputs[i].elements});
  }
  int64_t LongestSum() const {
    int64_t longest = 0;
    for (const LoopSum& sum : loop_.sums) longest = std::max(longest, sum.columns);
    return longest;
  }
  // Whether a part for each block would take too much memory.
  static bool HasFewParts(int64_t columns) { return LoopTarget().LoopSumParts(columns) < MostBlocks(); }
  static int64_t MostBlocks() { return LoopTarget().LoopSumParts(0); }

  int64_t SharedBytes() const {
    const int64_t warps = loop_.warps;
    int64_t bytes = warps * loop_.stage_bytes;
    for (const LoopStream& stream : loop_.streams) bytes += stream.draws_starts ? warps * kStartsBytes : 0;
    if (loop_.rows) bytes += loop_.one_row ? 4 * warps : 4 * (loop_.unit + loop_.unit / loop_.shape.row);
    const int64_t slot = loop_.double_slots ? 8 : 4;
    return bytes + static_cast<int64_t>(loop_.sums.size()) * loop_.teams * loop_.unit * slot;
  }

  bool FitShared() {
    const auto fits = [this] {
      loop_.warps = loop_.teams * static_cast<int>(CeilDiv(loop_.unit, loop_.piece));
      loop_.shared_bytes = SharedBytes();
      return loop_.shared_bytes <= kSharedLimit;
    };
    while (!fits() && loop_.teams > 1) loop_.teams /= 2;
    if (!fits()) loop_.double_slots = false;
    return fits();
  }

  // How many parts a sum has depends on the target and on shapes, never on the card.
  bool CutSums() {
    loop_.walk.splits = loop_.teams;
    if (loop_.sums.empty()) return true;
    FindClasses();
    const int64_t slices = MostSlices();
    int64_t parts = std::max<int64_t>(loop_.Units(), 1), sliced_bytes = 0, whole_bytes = 0,
            most_blocks = MostBlocks();
    for (LoopSum& sum : loop_.sums) {
      sum.sliced = slices > 1 && sum.columns == LongestSum();
      const int64_t most = LoopTarget().LoopSumParts(sum.columns);
      parts = std::min(parts, most);
      if (!sum.sliced) most_blocks = std::min(most_blocks, most);
      (sum.sliced ? sliced_bytes : whole_bytes) += sum.columns * static_cast<int64_t>(sizeof(double));
    }
    // Slices come first: of each part, memory is written and read again. Beyond a part for each unit of a class, parts
    // would be empty.
    if (slices > 1)
      parts =
          std::min({parts, std::max<int64_t>(most_blocks / slices, 1), std::max<int64_t>(UnitsOfClass(), 1)});
    const int64_t room = site_.workspace_bytes;
    if (sliced_bytes + whole_bytes > 0) parts = std::min(parts, room / (sliced_bytes + whole_bytes));
    if (parts <= 0) return false;
    int64_t blocks_of_part = std::min(slices, most_blocks / parts);
    if (whole_bytes > 0)
      blocks_of_part = std::min(blocks_of_part, (room / parts - sliced_bytes) / whole_bytes);
    loop_.walk.slices = static_cast<uint32_t>(blocks_of_part);
    loop_.sum_blocks = parts * blocks_of_part;
    for (LoopSum& sum : loop_.sums) {
      sum.parts = sum.sliced ? parts : loop_.sum_blocks;
      sum.workspace = loop_.workspace_bytes;
      loop_.workspace_bytes += sum.parts * sum.columns * static_cast<int64_t>(sizeof(double));
    }
    return true;
  }

  // Units of a class begin at the same column of every sum. The columns of every sum, and the elements of a sample, are
  // products of trailing axes of the space: of two of them, one is a multiple of the other.
  void FindClasses() {
    LoopWalk& walk = loop_.walk;
    const int64_t longest = LongestSum(), in_sample = std::max<int64_t>(walk.units, 1);
    for (const LoopSum& sum : loop_.sums) {
      if (sum.columns == 0) continue;
      const int64_t period = std::min(sum.columns / std::gcd(sum.columns, loop_.unit), in_sample + 1);
      walk.classes = std::min(std::lcm(walk.classes, period), in_sample);
    }
    if (longest > loop_.elements && loop_.elements > 0) {  // its columns are several samples
      walk.classes = longest / loop_.elements * in_sample;
      walk.units *= walk.samples;
      walk.samples = 1;
    }
    // So that every team of a block has something to do.
    walk.splits = CeilDiv(loop_.teams, walk.classes);
  }

  // Into how many slices the longest sum's columns can be cut: as many as the teams of a block have rounds to go. 1 if
  // it has parts enough, or if units of several classes lie in a column.
  int64_t MostSlices() const {
    const int64_t columns = LongestSum();
    const bool apart = columns >= loop_.elements || columns % loop_.unit == 0;
    return apart && loop_.elements > 0 && HasFewParts(columns) ? CeilDiv(loop_.walk.classes, loop_.teams) : 1;
  }
  int64_t UnitsOfClass() const { return loop_.walk.samples * CeilDiv(loop_.walk.units, loop_.walk.classes); }

  // Where parts of sums are decided (runtime/base/target.h).
  static const Target& LoopTarget() { return CudaTarget(); }

  const KernelSite& site_;
  const Program& program_;
  CudaLoop loop_;
};

}  // namespace

int CudaLoop::ResidentThreads() const {
  // Of a lane's elements: what is loaded or decoded, encoded, or added up. Codes pass through integers.
  size_t arrays = sums.size();
  for (size_t i = 0; i < operands.size(); ++i)
    if (used[i] && operands[i].kind != OperandKind::kColumn)
      arrays += operands[i].kind == OperandKind::kCode ? 2 : 1;
  for (const ProgramOutput& output : program->outputs) arrays += output.kind == OutputKind::kEncode ? 2 : 0;
  const auto floats = static_cast<int64_t>(arrays) * PerLane();
  // Codes of short pieces are made and read in other ways, which takes more.
  const int64_t most = floats + (MayBeShort() ? 2 * PerLane() : 0);
  // 128 registers do for nearly all others: the compiler gives more to those that would spill.
  return most <= 48 ? 1024 : 512;
}

std::optional<CudaLoop> MakeCudaLoop(const KernelSite& site, std::string* why) {
  std::string ignored;
  if (!why) why = &ignored;
  std::optional<FusedShape> shape = FusedShapeOf(site, why);
  if (!shape) return std::nullopt;
  const auto on_host = [why](const Codec& codec) {
    const bool odd_cast = codec.IsCast() && codec.bits != 8 && codec.bits != 16;
    if (codec.kind != CodecKind::kGroups && !odd_cast) return false;
    *why = ToString(codec) + " has no device code";
    return true;
  };
  for (const ProgramInput& input : site.node->program.inputs)
    if (on_host(input.codec)) return std::nullopt;
  for (const ProgramOutput& output : site.node->program.outputs)
    if (on_host(output.codec)) return std::nullopt;
  return Planner(site, std::move(*shape)).Plan(why);
}

}  // namespace act::cuda
