#include "kernels/cpu/fused_run.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/read_ahead.h"
#include "kernels/site/dereference.h"
#include "kernels/site/element_types.h"

namespace act {
namespace {

// Tiles added in float32 before the sum is moved to double precision.
constexpr int64_t kTilesPerFlush = 16;

}  // namespace

TileWalker::TileWalker(const FusedLoop& loop, const KernelArgs& args, float* scratch)
    : loop_(loop), args_(args), scratch_(scratch) {
  for (size_t r = 0; r < loop.registers.size(); ++r) {
    at_[r] = scratch + loop.registers[r].scratch;
    made_in_[r] = -1;
  }
  for (const DirectStore& direct : loop.direct) {
    const DevicePointer to = args.outputs[static_cast<size_t>(direct.output)].data;
    const auto lies_there = [&args, to](int32_t input) {
      return args.inputs[static_cast<size_t>(input)].data == to;
    };
    if (std::none_of(direct.read_later.begin(), direct.read_later.end(), lies_there))
      made_in_[direct.reg] = direct.output;
  }
  ComputeOnce();
  phases_[kMostPeriods] = 0;
  Cursor* cursor = cursors_;
  for (const CompiledRun& run : loop.runs)
    for (const RunStream& stream : run.streams) *cursor++ = CursorOf(stream);
}

TileOperand TileWalker::Operand(int32_t reg, int64_t from) const {
  if (reg < 0) return {};
  const Place place = loop_.registers[static_cast<size_t>(reg)].place;
  const bool splat = place == Place::kScalar || (place == Place::kRow && loop_.one_row);
  return {at_[reg] + (splat ? 0 : from), splat};
}

void TileWalker::ComputeOnce() {
  for (size_t i = 0; i < loop_.constants.size(); ++i)
    *at_[static_cast<size_t>(loop_.first_constant) + i] = loop_.constants[i];
  for (size_t r = 0; r < loop_.registers.size(); ++r) {
    const LoopRegister& column = loop_.registers[r];
    if (!column.IsOnce() || column.input < 0) continue;
    const TensorView& view = args_.inputs[static_cast<size_t>(column.input)];
    ReadAsFloat(view.dtype, view.as<void>(), 1, column.period, at_[r]);
    for (int64_t i = 0; column.place == Place::kColumn && i < loop_.tail; ++i)
      at_[r][column.period + i] = at_[r][i];
  }
  for (const Step& step : loop_.once) RunOnce(step);
}

// Computes one period, then repeats its beginning. The period of each operand divides the result's.
void TileWalker::RunOnce(const Step& step) {
  const LoopRegister& result = loop_.registers[static_cast<size_t>(step.reg)];
  float* to = at_[step.reg];
  const auto operand = [this](int32_t reg, int64_t start) -> TileOperand {
    if (reg < 0) return {};
    const LoopRegister& r = loop_.registers[static_cast<size_t>(reg)];
    return {at_[reg] + (r.place == Place::kScalar ? 0 : start % r.period), r.place == Place::kScalar};
  };
  const int64_t piece = std::min(kTileElements, std::max<int64_t>(loop_.tail, 1));
  for (int64_t i = 0; i < result.period; i += piece) {
    const size_t n = static_cast<size_t>(std::min(piece, result.period - i));
    ApplyTile(step.instr, n, operand(step.a, i), operand(step.b, i), operand(step.c, i), to + i);
  }
  for (int64_t i = 0; result.place == Place::kColumn && i < loop_.tail; ++i) to[result.period + i] = to[i];
}

void TileWalker::Run(int64_t first, int64_t last, int64_t part) {
  ClearSums(part);
  if (first < last) {
    TilePlace place;
    place.elements = loop_.walk_elements;
    place.sample = first / loop_.tiles_per_sample;
    place.first = first % loop_.tiles_per_sample * loop_.tile;
    for (int64_t t = first; t < last; ++t) {
      place.count = std::min(loop_.tile, place.elements - place.first);
      RunTile(place);
      if ((t - first) % kTilesPerFlush == kTilesPerFlush - 1) FlushSums();
      place.first += loop_.tile;
      if (place.first >= place.elements) {
        place.first = 0;
        ++place.sample;
      }
    }
  }
  FlushSums();
}

void TileWalker::RunTile(const TilePlace& place) {
  PlaceTile(place);
  size_t i = 0;
  const Cursor* cursors = cursors_;
  for (const CompiledRun& run : loop_.runs) {
    for (; i < run.first; ++i) RunStep(loop_.steps[i], place);
    RunCompiled(run, cursors, place);
    cursors += run.streams.size();
    i = run.last;
  }
  for (; i < loop_.steps.size(); ++i) RunStep(loop_.steps[i], place);
}

const int64_t* TileWalker::PhaseOf(int64_t period) const {
  return phases_ + (std::find(loop_.periods.begin(), loop_.periods.end(), period) - loop_.periods.begin());
}

TileWalker::Cursor TileWalker::CursorOf(const RunStream& stream) const {
  const auto number = static_cast<size_t>(stream.number);
  const int64_t* const no_phase = phases_ + kMostPeriods;
  const auto tensor = [no_phase](const TensorView& view) {
    return Cursor{view.as<const std::byte>(), ByteSize(view.dtype), no_phase};
  };
  const auto floats = [this](int64_t scratch, const int64_t* phase) {
    return Cursor{reinterpret_cast<const std::byte*>(scratch_ + scratch), 0, phase};
  };
  switch (stream.kind) {
    case RunStream::kRegister: {
      const LoopRegister& reg = loop_.registers[number];
      if (made_in_[number] >= 0) return tensor(args_.outputs[static_cast<size_t>(made_in_[number])]);
      if (reg.place == Place::kDirect) return tensor(args_.inputs[static_cast<size_t>(reg.input)]);
      return floats(reg.scratch, reg.place == Place::kColumn ? PhaseOf(reg.period) : no_phase);
    }
    case RunStream::kOperand:
      return tensor(args_.inputs[number]);
    case RunStream::kResult:
      return tensor(args_.outputs[number]);
    case RunStream::kSum:
      return floats(loop_.sums[number].scratch, PhaseOf(loop_.sums[number].columns));
    case RunStream::kCode:
      break;
  }
  return {reinterpret_cast<const std::byte*>(placed_[number].blocks), 0, no_phase};
}

void TileWalker::PlacePlanes(const RunPlanes& planes, int64_t block, const TilePlace& place, PlacedCode& to) {
  const auto tensor = static_cast<size_t>(planes.tensor);
  const CodedTensor& coded = loop_.inputs[tensor];
  const auto* codes = args_.inputs[tensor].as<const uint8_t>() + place.sample * coded.layout.sample_bytes;
  AskForNextCodes<false>(coded.codec, coded.layout, codes, place.first, place.count);
  const int64_t samples_before = args_.first_sample * loop_.shape.samples_each;
  PlaceCode(coded.codec, coded.layout, planes.form, Drawn(planes.stream),
            {place.sample + samples_before, place.elements, place.first, place.count}, block, codes, to);
}

void TileWalker::RunCompiled(const CompiledRun& run, const Cursor* cursors, const TilePlace& place) {
  for (size_t c = 0; c < run.codes.size(); ++c) PlacePlanes(run.codes[c], run.block, place, placed_[c]);
  const int64_t offset = place.sample * place.elements + place.first;
  const void* streams[kMostRunStreams];
  for (size_t s = 0; s < run.streams.size(); ++s)
    streams[s] = cursors[s].start + offset * cursors[s].element_bytes + *cursors[s].phase_bytes;
  (*run.code)(streams, static_cast<size_t>(place.count));
}

void TileWalker::PlaceTile(const TilePlace& place) {
  const int64_t offset = place.sample * place.elements + place.first;
  for (size_t p = 0; p < loop_.periods.size(); ++p)
    phases_[p] = offset % loop_.periods[p] * int64_t{sizeof(float)};
  int64_t period = 0, phase = 0;  // neighbouring columns mostly have the same period
  for (const int32_t of : loop_.placed) {
    const auto r = static_cast<size_t>(of);
    const LoopRegister& reg = loop_.registers[r];
    if (reg.place == Place::kDirect) {
      at_[r] = args_.inputs[static_cast<size_t>(reg.input)].as<float>() + offset;
      AskForNextTile<false>(at_[r], place.count);
    } else if (reg.place == Place::kColumn) {
      if (reg.period != period) phase = offset % reg.period;
      period = reg.period;
      at_[r] = scratch_ + reg.scratch + phase;
    } else if (made_in_[r] >= 0) {
      at_[r] = args_.outputs[static_cast<size_t>(made_in_[r])].as<float>() + offset;
      AskForNextTile<true>(at_[r], place.count);
    }
  }
}

// Arithmetic on a few numbers: one for each row. As exact as the vectorised loops.
bool ApplyToFew(TileInstr instr, int64_t count, TileOperand a, TileOperand b, TileOperand c, float* to) {
  if (count > 4 || instr.relu) return false;
  const auto each = [&](const auto& f) {
    const auto at = [](const TileOperand& o, int64_t i) { return o.data ? o.data[o.splat ? 0 : i] : 0.0f; };
    for (int64_t i = 0; i < count; ++i) to[i] = f(at(a, i), at(b, i), at(c, i));
    return true;
  };
  switch (static_cast<Opcode>(instr.op)) {
    case Opcode::kAdd:
      return each([](float x, float y, float) { return x + y; });
    case Opcode::kSub:
      return each([](float x, float y, float) { return x - y; });
    case Opcode::kMul:
      return each([](float x, float y, float) { return x * y; });
    case Opcode::kDiv:
      return each([](float x, float y, float) { return x / y; });
    case Opcode::kNeg:
      return each([](float x, float, float) { return -x; });
    case Opcode::kSqrt:
      return each([](float x, float, float) { return std::sqrt(x); });
    default:
      return false;
  }
}

// Vectorised loops take kTileElements at a time. A tile of long rows has more.
void TileWalker::Apply(const Step& step, int64_t count) const {
  if (ApplyToFew(step.instr, count, Operand(step.a, 0), Operand(step.b, 0), Operand(step.c, 0),
                 at_[step.reg]))
    return;
  for (int64_t i = 0; i < count; i += kTileElements)
    ApplyTile(step.instr, static_cast<size_t>(std::min(kTileElements, count - i)), Operand(step.a, i),
              Operand(step.b, i), Operand(step.c, i), at_[step.reg] + i);
}

// Calls f for each piece of at most kTileElements of a tile. f receives the place of the piece
// among the samples of the whole batch (`samples_before` of them precede the kernel's), and its
// distance from the start of the tile.
template <class F>
void ForPieces(const TilePlace& tile, int64_t samples_before, const F& f) {
  for (int64_t i = 0; i < tile.count; i += kTileElements) {
    f(TilePlace{tile.sample + samples_before, tile.elements, tile.first + i,
                std::min(kTileElements, tile.count - i)},
      i);
  }
}

void TileWalker::RunStep(const Step& step, const TilePlace& place) {
  // Only steps that have rows call this, since it divides.
  const int64_t offset = place.sample * place.elements + place.first, row = loop_.shape.row;
  const auto rows = [&] { return place.count / row; };
  const int64_t samples_before = args_.first_sample * loop_.shape.samples_each;
  const size_t tensor = static_cast<size_t>(step.tensor);
  float* x = at_[step.reg];
  switch (step.kind) {
    case StepKind::kApply:
      return Apply(
          step, loop_.registers[static_cast<size_t>(step.reg)].place == Place::kRow ? rows() : place.count);
    case StepKind::kReadRow:
      return ReadRow(step.tensor, offset / row, rows(), x);
    case StepKind::kReduce:
      return ReduceRowsTile(step.instr.op, static_cast<size_t>(rows()), static_cast<size_t>(row), at_[step.a],
                            step.b < 0 ? nullptr : at_[step.b], x);
    case StepKind::kSpread:
      return SpreadRowsTile(static_cast<size_t>(rows()), static_cast<size_t>(row), at_[step.a], x);
    case StepKind::kRowStore:
      return StoreRow(step, offset / row, rows());
    case StepKind::kDropout: {
      const TileOperand a = Operand(step.a, 0);
      if (a.splat) std::fill_n(x, place.count, *a.data);
      const float* from = a.splat ? x : a.data;
      const RandomStream stream = {args_.state->seed, args_.state->step, static_cast<uint32_t>(step.stream)};
      return ForPieces(place, samples_before, [&](const TilePlace& piece, int64_t i) {
        DropoutTile(stream, step.probability, piece, from + i, x + i);
      });
    }
    case StepKind::kRead:
      return Read(step.tensor, offset, place.count, x);
    case StepKind::kDecode: {
      const CodedTensor& coded = loop_.inputs[tensor];
      const auto* codes = args_.inputs[tensor].as<const uint8_t>() + place.sample * coded.layout.sample_bytes;
      AskForNextCodes<false>(coded.codec, coded.layout, codes, place.first, place.count);
      DrawnStream& random = Drawn(step.stream);
      return ForPieces(place, samples_before, [&](const TilePlace& piece, int64_t i) {
        const DecodeEpilogue epilogue = {step.mask, step.magnitude, Operand(step.a, i), Operand(step.b, i),
                                         step.keep_positive};
        DecodeTile(coded.codec, coded.layout, random, piece, codes, epilogue, x + i);
      });
    }
    case StepKind::kStore:
      return Store(step, offset, place.count);
    case StepKind::kEncode: {
      const CodedTensor& coded = loop_.outputs[tensor];
      auto* codes = args_.outputs[tensor].as<uint8_t>() + place.sample * coded.layout.sample_bytes;
      AskForNextCodes<true>(coded.codec, coded.layout, codes, place.first, place.count);
      DrawnStream& random = Drawn(step.stream);
      return ForPieces(place, samples_before, [&](const TilePlace& piece, int64_t i) {
        EncodeTile(coded.codec, coded.layout, random, piece, x + i, codes);
      });
    }
    case StepKind::kSum:
      return AddToSum(step, offset, place.count);
  }
}

DrawnStream& TileWalker::Drawn(int32_t stream) {
  const auto number = static_cast<uint32_t>(stream);
  DrawnStream& drawn = drawn_[number % std::size(drawn_)];
  const RandomStream random = {args_.state->RoundingSeed(stream), args_.state->step, number};
  if (drawn.stream != random) {
    drawn.stream = random;
    drawn.first_call = DrawnStream::kNone;
  }
  return drawn;
}

}  // namespace act
