#include "kernels/cuda/fused_body.h"

#include <algorithm>

#include "kernels/cuda/fused_frame.h"
#include "kernels/cuda/fused_writer.h"
#include "kernels/math/random.h"

namespace act::cuda {
namespace {

// Writes the lambda that works on a unit. Each level of registers is one loop over the lane's elements.
class Unit : FusedWriter {
 public:
  using FusedWriter::FusedWriter;

  std::string Text() {
    Run();
    return std::move(text_);
  }

 private:
  // What a reduction or an encode reads must be an array: `name` is made one if the register is none.
  std::string ArrayOf(int32_t reg, const std::string& name) const { return IsArray(reg) ? Name(reg) : name; }
  bool NeedsTerms(const LoopInstr& x) const {
    return x.IsReduction() && (x.instr.op == TileOp::kRowDot || !IsArray(x.a));
  }

  // ---- A unit

  void Run() {
    Line(2, "const int64_t elements = " +
                (loop_.by_sample ? std::to_string(loop_.elements) : std::string("p.walk.elements")) + ";");
    Line(2, "const auto run = [&](auto full, int64_t sample, int64_t unit) {");
    Line(4, "constexpr bool kFull = decltype(full)::kFull;");
    Line(4, loop_.rows ? "const int64_t first = unit * kUnit + warp * kPiece;"
                       : "const int64_t first = unit * kUnit;");
    Line(4, "const int64_t left = (elements < (unit + 1) * kUnit ? elements : (unit + 1) * kUnit) - first;");
    Line(4,
         "[[maybe_unused]] const int count = kFull || left > kPiece ? kPiece : static_cast<int>(left), rest "
         "= count - lane;");
    Line(4,
         "[[maybe_unused]] const Piece piece = {sample, p.walk.first_sample + sample, first, count, lane};");
    Line(4, "[[maybe_unused]] const int64_t at = sample * elements + first + lane;");
    if (loop_.rows) {
      Line(4, "[[maybe_unused]] const int tile = static_cast<int>(left) + warp * kPiece;");
      Line(4, "[[maybe_unused]] const int64_t first_row = (sample * elements + unit * kUnit) / kRow;");
    }
    Phases();
    for (size_t i = 0; i < program_.inputs.size(); ++i)
      if (loop_.used[i]) LoadInput(i);
    for (const LoopInstr& x : loop_.instructions.instrs)
      if (x.IsDropout())
        Line(4, "const uint32_t keeps_" + Name(x.reg) + " = DropoutKeeps<kPerLane>(random_" + Name(x.reg) +
                    ", piece, elements, " + std::to_string(DropoutThreshold(x.probability)) + "u);");
    Arrays();
    for (int level = 0; level <= registers_.levels(); ++level) Level(level);
    for (size_t i = 0; i < program_.outputs.size(); ++i) Encode(static_cast<int32_t>(i));
    for (const LoopSum& sum : loop_.sums) Line(4, "sum" + std::to_string(sum.output) + ".EndUnit();");
    Line(2, "};");
  }

  void Phases() {
    std::vector<int64_t> periods;
    for (size_t i = 0; i < loop_.operands.size(); ++i)
      if (loop_.used[i] && PlaceOf(static_cast<int32_t>(i)) == Place::kColumn)
        periods.push_back(loop_.operands[i].period);
    std::sort(periods.begin(), periods.end());
    periods.erase(std::unique(periods.begin(), periods.end()), periods.end());
    const std::string index = loop_.by_sample && loop_.elements < int64_t{1} << 32 ? "uint32_t" : "uint64_t";
    for (const int64_t period : periods)
      Line(4, "const auto phase" + std::to_string(period) + " = static_cast<uint32_t>(static_cast<" + index +
                  ">(first) % " + std::to_string(period) + "u);");
  }

  void LoadInput(size_t i) {
    const std::string name = Number("in", static_cast<int32_t>(i));
    const ProgramInput& input = program_.inputs[i];
    const auto reg = static_cast<int32_t>(i);
    if (PlaceOf(reg) == Place::kOfRow)
      return Line(4, "const float " + name + " = LoadFloat(p." + name + " + first_row);");
    if (PlaceOf(reg) != Place::kElement) return;
    Line(4, "float " + name + "[kPerLane] = {};");
    const auto each = [&](const std::string& place) {
      Line(4, "#pragma unroll");
      Line(4, "for (int j = 0; j < kPerLane; ++j)");
      Line(6, "if (kFull || 32 * j < rest) " + name + "[j] = LoadFloat(p." + name + " + " + place + ");");
    };
    switch (loop_.operands[i].kind) {
      case OperandKind::kElements:
        return Line(4, "LoadElements<kFull>(p." + name + " + at, rest, " + name + ");");
      case OperandKind::kCode: {
        const bool random = input.codec.HasLevels();
        const std::string with =
            random ? "random_" + name + ", starts_" + name : "RandomStream(), NoStarts()";
        return Line(4, "Decode<kIn" + std::to_string(i) + ", " + (input.mask ? "true" : "false") +
                           ", kFull>(p." + name + ", piece, " + with + ", stage, " + name + ");");
      }
      case OperandKind::kRow:
        return each("first_row + (place + 32 * j) / kRow");
      case OperandKind::kColumn:
      case OperandKind::kBroadcast:
        return each("PlaceIn" + std::to_string(i) + "(static_cast<Index>(at + 32 * j))");
    }
  }

  void Arrays() {
    for (const LoopInstr& x : loop_.instructions.instrs) {
      if (IsArray(x.reg)) Line(4, "float " + Name(x.reg) + "[kPerLane] = {};");
      if (NeedsTerms(x)) Line(4, "float terms_" + Name(x.reg) + "[kPerLane] = {};");
    }
    for (size_t i = 0; i < program_.outputs.size(); ++i)
      if (program_.outputs[i].kind == OutputKind::kEncode && !IsArray(program_.outputs[i].reg))
        Line(4, "float coded" + std::to_string(i) + "[kPerLane] = {};");
  }

  // ---- A level

  void Level(int level) {
    for (const LoopInstr& x : loop_.instructions.instrs)
      if (x.IsReduction() && LevelOf(x.reg) == level) Reduce(x);
    for (const LoopInstr& x : loop_.instructions.instrs)
      if (!x.IsReduction() && PlaceOf(x.reg) == Place::kOfRow && LevelOf(x.reg) == level)
        Line(4, "const float " + Name(x.reg) + " = " + ExpressionOf(x) + ";");
    std::string loop;
    loop.swap(text_);
    Columns(level);
    for (const LoopInstr& x : loop_.instructions.instrs)
      if (!x.IsReduction() && PlaceOf(x.reg) == Place::kElement && LevelOf(x.reg) == level)
        Line(6, (IsArray(x.reg) ? "" : "const float ") + Value(x.reg) + " = " + ExpressionOf(x) + ";");
    for (const LoopInstr& x : loop_.instructions.instrs)
      if (NeedsTerms(x) && LevelOf(x.reg) == level + 1)
        Line(6, "terms_" + Name(x.reg) + "[j] = " + Value(x.a) + (x.b >= 0 ? " * " + Value(x.b) : "") + ";");
    for (size_t i = 0; i < program_.outputs.size(); ++i)
      if (LevelOf(program_.outputs[i].reg) == level) Output(static_cast<int32_t>(i));
    loop.swap(text_);
    if (loop.empty()) return;
    Line(4, "#pragma unroll");
    Line(4, "for (int j = 0; j < kPerLane; ++j) {");
    text_ += loop;
    Line(4, "}");
  }

  // Loads and computes what the level's loop reads of columns.
  void Columns(int level) {
    std::vector<bool> needed(registers_.size(), false);
    const auto need = [&](int32_t reg) {
      if (reg >= 0 && PlaceOf(reg) == Place::kColumn) needed[Index(reg)] = true;
    };
    const std::vector<LoopInstr>& instrs = loop_.instructions.instrs;
    for (const LoopInstr& x : instrs) {
      if (PlaceOf(x.reg) != Place::kElement && !x.IsReduction()) continue;
      if (LevelOf(x.reg) != level + x.IsReduction()) continue;
      for (const int32_t reg : {x.a, x.b, x.c}) need(reg);
    }
    for (const ProgramOutput& output : program_.outputs)
      if (level == 0) need(output.reg);
    for (size_t i = instrs.size(); i-- > 0;)
      if (needed[Index(instrs[i].reg)])
        for (const int32_t reg : {instrs[i].a, instrs[i].b, instrs[i].c}) need(reg);
    for (size_t i = 0; i < loop_.operands.size(); ++i) {
      if (!needed[i]) continue;
      const std::string period = std::to_string(loop_.operands[i].period), n = std::to_string(i);
      Line(6, "const float in" + n + " = LoadFloat(p.in" + n + " + ColumnAt<" + period + ", " +
                  std::to_string(PieceAlignment()) + ">(phase" + period + ", 32 * j + lane));");
    }
    for (const LoopInstr& x : instrs)
      if (needed[Index(x.reg)]) Line(6, "const float " + Name(x.reg) + " = " + ExpressionOf(x) + ";");
  }
  // Pieces begin at multiples of this.
  int64_t PieceAlignment() const { return loop_.unit % loop_.piece == 0 ? loop_.piece : 1; }

  void Reduce(const LoopInstr& x) {
    const std::string kind = x.instr.op == ToTileOp(Opcode::kRowMax) ? "MaxOfRow" : "SumOfRow";
    const std::string terms = NeedsTerms(x) ? "terms_" + Name(x.reg) : Name(x.a);
    if (loop_.one_row)
      Line(4, "const float " + Name(x.reg) + " = ReduceRow<" + kind + ", kWarps>(" + terms +
                  ", count, lane, rows);");
    else
      Line(4,
           "ReduceRows<" + kind + ", kRow, kUnit>(" + terms + ", place, tile, rows, " + Name(x.reg) + ");");
  }

  void Output(int32_t i) {
    const ProgramOutput& output = program_.outputs[Index(i)];
    const std::string value = Value(output.reg), n = std::to_string(i);
    const std::string inside = "if (kFull || 32 * j < rest";
    switch (output.kind) {
      case OutputKind::kStore:
        return Line(6, inside + ") StoreFloat(p.out" + n + " + at + 32 * j, " + value + ");");
      case OutputKind::kSum:
        return Line(6, inside + ") sum" + n + ".Add(j, " + value + ");");
      case OutputKind::kRowStore:
        return Line(6, "if ((kFull || 32 * j < rest) && (place + 32 * j) % kRow == 0) Store(p.out" + n +
                           " + first_row + (place + 32 * j) / kRow, " + value + ");");
      case OutputKind::kEncode:
        if (!IsArray(output.reg)) Line(6, "coded" + n + "[j] = " + value + ";");
    }
  }

  void Encode(int32_t i) {
    const ProgramOutput& output = program_.outputs[Index(i)];
    if (output.kind != OutputKind::kEncode) return;
    const std::string n = std::to_string(i);
    const std::string with =
        output.codec.HasLevels() ? "random_out" + n + ", starts_out" + n : "RandomStream(), NoStarts()";
    Line(4, "Encode<kOut" + n + ", kFull>(" + ArrayOf(output.reg, "coded" + n) + ", piece, " + with +
                ", stage, p.out" + n + ");");
  }
};

}  // namespace

std::string FusedBody(const CudaLoop& loop) {
  return FusedPrologue(loop) + Unit(loop).Text() + FusedWalk(loop);
}

}  // namespace act::cuda
