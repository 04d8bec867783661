#include "kernels/cuda/fused_body.h"

#include <algorithm>

#include "kernels/cuda/fused_expression.h"
#include "kernels/cuda/fused_registers.h"
#include "kernels/math/random.h"

namespace act::cuda {
namespace {

std::string Number(const char* kind, int32_t n) { return kind + std::to_string(n); }

// Writes the body. Each level of registers is one loop over the lane's elements.
class Body {
 public:
  explicit Body(const CudaLoop& loop) : loop_(loop), program_(*loop.program), registers_(loop) {}

  std::string Text() {
    Prologue();
    Run();
    Walk();
    return std::move(text_);
  }

 private:
  void Line(int indent, const std::string& line) {
    text_.append(static_cast<size_t>(indent), ' ').append(line) += '\n';
  }

  static size_t Index(int32_t reg) { return static_cast<size_t>(reg); }
  using Place = TextPlace;
  Place PlaceOf(int32_t reg) const { return registers_.PlaceOf(reg); }
  bool IsArray(int32_t reg) const { return registers_.IsArray(reg); }
  int LevelOf(int32_t reg) const { return registers_.LevelOf(reg); }
  std::string Name(int32_t reg) const { return registers_.Name(reg); }
  std::string Value(int32_t reg) const { return registers_.Value(reg); }
  std::string ExpressionOf(const LoopInstr& x) const {
    std::string s;
    if (x.IsDropout())
      s = "(keeps_" + Name(x.reg) + " >> j & 1) != 0 ? " + Value(x.a) + " * " +
          Literal(1.0f / (1.0f - x.probability)) + " : 0.0f";
    else
      s = Expression(x, Value(x.a), Value(x.b), Value(x.c));
    return x.instr.relu ? "Relu(" + s + ")" : s;
  }

  // What a reduction or an encode reads must be an array: `name` is made one if the register is none.
  std::string ArrayOf(int32_t reg, const std::string& name) const { return IsArray(reg) ? Name(reg) : name; }
  bool NeedsTerms(const LoopInstr& x) const {
    return x.IsReduction() && (x.instr.op == TileOp::kRowDot || !IsArray(x.a));
  }

  // ---- Before the walk

  void Prologue() {
    Line(2,
         "const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;");
    Line(2, loop_.rows ? "[[maybe_unused]] const int team = 0, place = warp * kPiece + lane;"
                       : "[[maybe_unused]] const int team = warp, place = lane;");
    Random();
    Shared();
    Sums();
    Scalars();
  }

  void Random() {
    if (loop_.streams.empty()) return;
    Line(2, "const StepBlock step = LoadStep(p.step);");
    int drawn = 0;
    for (const LoopStream& stream : loop_.streams) drawn += stream.draws_starts;
    if (drawn > 0)
      Line(2, "ACT_SHARED(uint32_t, starts, " + std::to_string(drawn) + " * kWarps * DitherStarts::kWords);");
    int next = 0;
    for (const LoopStream& stream : loop_.streams) {
      Line(2, "const RandomStream random_" + stream.of + " = " +
                  (stream.of[0] == 'r' ? "DropoutStream" : "RoundingStream") + "(step, p.stream_" +
                  stream.of + ");");
      const std::string words = stream.draws_starts ? "starts + (" + std::to_string(next++) +
                                                          " * kWarps + warp) * DitherStarts::kWords"
                                                    : "nullptr";
      if (stream.of[0] != 'r')
        Line(2, "DitherStarts starts_" + stream.of + "(random_" + stream.of + ", " + words + ");");
    }
  }

  void Shared() {
    const std::string words = std::to_string(loop_.stage_bytes / 4);
    if (loop_.stage_bytes > 0) {
      Line(2, "ACT_SHARED(uint32_t, stages, kWarps * " + words + ");");
      Line(2, "[[maybe_unused]] uint8_t* const stage = reinterpret_cast<uint8_t*>(stages + warp * " + words +
                  ");");
    } else {
      Line(2, "[[maybe_unused]] uint8_t* const stage = nullptr;");
    }
    if (registers_.levels() > 0)
      Line(2, loop_.one_row ? "ACT_SHARED(float, rows, kWarps);"
                            : "ACT_SHARED(float, rows, kUnit + kUnit / kRow);");
  }

  void Sums() {
    const std::string slot = loop_.double_slots ? "double" : "float";
    for (const LoopSum& sum : loop_.sums) {
      const std::string n = std::to_string(sum.output), columns = std::to_string(sum.columns);
      Line(2, "ACT_SHARED(" + slot + ", slots" + n + ", kTeams * kUnit);");
      Line(2, "ColumnSum<" + slot + ", kPerLane, kUnit> sum" + n + "(slots" + n + " + team * kUnit, place);");
      Line(2, "double* const total" + n + " = p.partial" + n + " + blockIdx.x * int64_t{" + columns + "};");
      Line(2, "ClearColumns(total" + n + ", " + columns + ");");
    }
  }

  void Scalars() {
    for (size_t i = 0; i < program_.constants.size(); ++i) {
      const bool varies = program_.constants[i].extent != Dim(0);
      const std::string name = Number("c", static_cast<int32_t>(i));
      Line(2, "[[maybe_unused]] const float " + name + " = " +
                  (varies ? "p." + name : Literal(program_.constants[i].value)) + ";");
    }
    for (size_t i = 0; i < program_.inputs.size(); ++i)
      if (loop_.used[i] && PlaceOf(static_cast<int32_t>(i)) == Place::kScalar)
        Line(2, "const float in" + std::to_string(i) + " = LoadFloat(p.in" + std::to_string(i) + ");");
    for (const LoopInstr& x : loop_.instructions.instrs)
      if (PlaceOf(x.reg) == Place::kScalar)
        Line(2, "const float " + Name(x.reg) + " = " + ExpressionOf(x) + ";");
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

  // ---- The walk

  void Walk() {
    Line(2, "const auto run_unit = [&](int64_t sample, int64_t unit) {");
    if (!loop_.MayBeFull())
      Line(4, "run(Fullness<false>(), sample, unit);");
    else if (!loop_.MayBeShort())
      Line(4, "run(Fullness<true>(), sample, unit);");
    else
      Line(4,
           "(unit + 1) * kUnit <= elements ? run(Fullness<true>(), sample, unit) : run(Fullness<false>(), "
           "sample, unit);");
    Line(2, "};");
    if (loop_.sums.empty()) return Line(2, "WalkClass(p.walk, team, run_unit);");
    Line(2, "SyncThreads();");
    Line(2, "const int64_t items = p.walk.classes * p.walk.splits;");
    Line(2, "for (int64_t first_item = 0; first_item < items; first_item += kTeams) {");
    Line(4, "const int64_t item = first_item + team, unit = item % p.walk.classes;");
    Line(4,
         "const int64_t first = unit / p.walk.units_per_sample * elements + unit % p.walk.units_per_sample * "
         "kUnit;");
    for (const LoopSum& sum : loop_.sums) Line(4, "sum" + std::to_string(sum.output) + ".Clear();");
    Line(4, "if (item < items) WalkClass(p.walk, item, run_unit);");
    for (const LoopSum& sum : loop_.sums) Line(4, "sum" + std::to_string(sum.output) + ".Flush();");
    Line(4, "for (int t = 0; t < kTeams; ++t) {  // in order, so that sums are the same in every run");
    Line(6, "SyncThreads();");
    Line(6, "if (t != team || item >= items) continue;");
    for (const LoopSum& sum : loop_.sums) {
      const std::string n = std::to_string(sum.output);
      Line(6, "sum" + n + ".AddTo(total" + n + ", " + std::to_string(sum.columns) + ", first, " +
                  (loop_.rows ? "static_cast<int>(threadIdx.x), 32 * kWarps" : "lane, 32") + ");");
    }
    Line(4, "}");
    Line(4, "SyncThreads();");
    Line(2, "}");
  }

  const CudaLoop& loop_;
  const Program& program_;
  const TextRegisters registers_;
  std::string text_;
};

}  // namespace

std::string FusedBody(const CudaLoop& loop) { return Body(loop).Text(); }

}  // namespace act::cuda
