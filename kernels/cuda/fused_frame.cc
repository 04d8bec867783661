#include "kernels/cuda/fused_frame.h"

#include "kernels/cuda/fused_writer.h"

namespace act::cuda {
namespace {

class Prologue : FusedWriter {
 public:
  using FusedWriter::FusedWriter;

  std::string Text() {
    Line(2,
         "const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;");
    Line(2, loop_.rows ? "[[maybe_unused]] const int team = 0, place = warp * kPiece + lane;"
                       : "[[maybe_unused]] const int team = warp, place = lane;");
    Random();
    Shared();
    Sums();
    Scalars();
    return std::move(text_);
  }

 private:
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
    for (const LoopSum& sum : loop_.sums) Sum(sum);
  }

  void Sum(const LoopSum& sum) {
    const std::string slot = loop_.double_slots ? "double" : "float";
    const std::string n = std::to_string(sum.output), columns = std::to_string(sum.columns);
    Line(2, "ACT_SHARED(" + slot + ", slots" + n + ", kTeams * kUnit);");
    Line(2, "ColumnSum<" + slot + ", kPerLane, kUnit> sum" + n + "(slots" + n + " + team * kUnit, place);");
    const std::string part = sum.sliced ? "blockIdx.x / p.walk.slices" : "blockIdx.x";
    Line(2, "double* const total" + n + " = p.partial" + n + " + int64_t{" + part + "} * " + columns + ";");
    if (!sum.sliced) Line(2, "ClearColumns(total" + n + ", " + columns + ");");
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
};

class Walker : FusedWriter {
 public:
  using FusedWriter::FusedWriter;

  std::string Text() {
    Walk();
    return std::move(text_);
  }

 private:
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
    Line(2, "const int64_t items = p.walk.classes * p.walk.splits, rounds = (items + kTeams - 1) / kTeams;");
    Line(2, "const int64_t slice = blockIdx.x % p.walk.slices;");
    Line(2, "const int64_t last_item = rounds * (slice + 1) / p.walk.slices * kTeams;");
    Line(2,
         "for (int64_t first_item = rounds * slice / p.walk.slices * kTeams; first_item < last_item; "
         "first_item += kTeams) {");
    Line(4, "const int64_t item = first_item + team;");
    for (const LoopSum& sum : loop_.sums) Line(4, "sum" + std::to_string(sum.output) + ".Clear();");
    Line(4, "if (item < items) WalkClass(p.walk, item, run_unit);");
    for (const LoopSum& sum : loop_.sums) Line(4, "sum" + std::to_string(sum.output) + ".Flush();");
    // Here, so that they take no registers during the walk.
    Line(4,
         "const int64_t unit = item % p.walk.classes, in_sample = unit % p.walk.units_per_sample * kUnit;");
    Line(4, "const int64_t first = unit / p.walk.units_per_sample * elements + in_sample;");
    Line(4, "for (int t = 0; t < kTeams; ++t) {  // in order, so that sums are the same in every run");
    Line(6, "SyncThreads();");
    Line(6, "if (t != team || item >= items) continue;");
    for (const LoopSum& sum : loop_.sums) EndSum(sum);
    Line(4, "}");
    Line(4, "SyncThreads();");
    Line(2, "}");
  }

  void EndSum(const LoopSum& sum) {
    const std::string n = std::to_string(sum.output);
    const std::string threads = loop_.rows ? "static_cast<int>(threadIdx.x), 32 * kWarps" : "lane, 32";
    Line(6, "sum" + n +
                (sum.sliced ? ".StoreTo(total" + n + ", first, elements - in_sample, "
                            : ".AddTo(total" + n + ", " + std::to_string(sum.columns) + ", first, ") +
                threads + ");");
  }
};

}  // namespace

std::string FusedPrologue(const CudaLoop& loop) { return Prologue(loop).Text(); }
std::string FusedWalk(const CudaLoop& loop) { return Walker(loop).Text(); }

}  // namespace act::cuda
