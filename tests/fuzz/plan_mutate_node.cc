// Changes of attributes and of programs.
#include <algorithm>
#include <cmath>
#include <type_traits>
#include <variant>

#include "tests/fuzz/plan_mutation.h"

namespace act::fuzz {
namespace {

template <class T>
T* At(std::vector<T>& list, size_t i) {
  return list.empty() ? nullptr : &list[i % list.size()];
}

double AnyFloat(const Choice& choice) {
  static constexpr double kNumbers[] = {0,   1,        -1,        .5,    2, 1e-30, 1e30,
                                        NAN, INFINITY, -INFINITY, 1e308, 3, -.5,   1e-5};
  return kNumbers[choice.c % std::size(kNumbers)];
}

Attribute Changed(Attribute attribute, const Choice& choice) {
  std::visit(
      [&](auto& value) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, int64_t>) {
          value = choice.Number();
        } else if constexpr (std::is_same_v<T, double>) {
          value = AnyFloat(choice);
        } else if constexpr (std::is_same_v<T, std::string>) {
          static constexpr const char* kTexts[] = {
              "",        "add", "mean", "linear",     "cubic",
              "nearest", "max", "min",  "edge",       "reflect",
              "none",    "sum", "Tanh", "half_pixel", "tf_crop_and_resize",
              "cast"};
          value = kTexts[choice.c % std::size(kTexts)];
        } else {  // a list
          const size_t at = choice.b / 8;
          using Item = typename T::value_type;
          Item number{};
          if constexpr (std::is_same_v<Item, double>)
            number = AnyFloat(choice);
          else
            number = choice.Number();
          if (choice.b % 4 == 0 && !value.empty())
            value.erase(value.begin() + static_cast<std::ptrdiff_t>(at % value.size()));
          else if (choice.b % 4 == 1)
            value.insert(value.begin() + static_cast<std::ptrdiff_t>(at % (value.size() + 1)), number);
          else if (!value.empty())
            value[at % value.size()] = number;
        }
      },
      attribute);
  return attribute;
}

Attribute OfAnotherType(const Choice& choice) {
  switch (choice.c % 5) {
    case 0:
      return choice.Number();
    case 1:
      return AnyFloat(choice);
    case 2:
      return std::string("1");
    case 3:
      return std::vector<int64_t>{choice.Number(), 0};
    default:
      return std::vector<double>{AnyFloat(choice)};
  }
}

Codec AnyCodec(const Choice& choice) {
  const int bits = static_cast<int>(choice.c % 9);
  switch (choice.c / 9 % 7) {
    case 0:
      return {};
    case 1:
      return Codec::Mask();
    case 2:
      return Codec::Index(bits);
    case 3:
      return Codec::Uniform(bits);
    case 4:
      return Codec::Sign(bits, static_cast<int>(choice.c / 64 % 8));
    case 5:
      return Codec::Zero(bits).Fitted();
    default:
      return Codec::Uniform(bits, static_cast<int64_t>(choice.c % 300), Rounding::kDither);
  }
}

void MutateInstruction(Program& program, const Choice& choice) {
  const auto any = [&](size_t number) {
    return static_cast<int32_t>(number % static_cast<size_t>(program.Registers() + 2)) - 1;
  };
  Instr* const instr = At(program.instrs, choice.b / 8);
  switch (choice.c % 6) {
    case 0:
      if (instr) instr->op = static_cast<Opcode>(choice.c / 6 % (static_cast<size_t>(Opcode::kRowMax) + 1));
      break;
    case 1:
      if (instr) instr->a = any(choice.c / 6);
      break;
    case 2:
      if (instr) instr->b = any(choice.c / 6);
      break;
    case 3:
      if (instr) instr->c = any(choice.c / 6);
      break;
    case 4:
      if (instr) instr->parameter = static_cast<float>(AnyFloat({choice.a, choice.b, choice.c / 6}));
      break;
    case 5: {
      Instr added;
      added.op = static_cast<Opcode>(choice.c / 6 % (static_cast<size_t>(Opcode::kRowMax) + 1));
      const int arity = Arity(added.op);
      added.a = any(choice.b);
      if (arity > 1) added.b = any(choice.b / 3);
      if (arity > 2) added.c = any(choice.b / 7);
      program.instrs.push_back(added);
      if (ProgramOutput* output = At(program.outputs, choice.b)) output->reg = program.Registers() - 1;
      break;
    }
  }
}

void MutateCodeOf(Value& value, const Choice& choice) {
  CodedParameter coded = *value.coded;
  const size_t at = choice.b / 8;
  switch (choice.c / 2 % 6) {
    case 0:
      value.coded = nullptr;
      return;
    case 1:
      coded.codec = Codec::Cast(kBFloat16);
      break;
    case 2:
      coded.codec = Codec::Uniform(1 + static_cast<int>(at % 9), 16 << at % 8, static_cast<Rounding>(at % 3));
      break;
    case 3:
      coded.codec.levels = static_cast<int32_t>(at);
      break;
    case 4:
      coded.codec.metadata = static_cast<Metadata>(at % (static_cast<size_t>(kLastMetadata) + 1));
      break;
    case 5:
      if (Dim* dim = At(coded.type.dims, at)) *dim = Dim(choice.Number());
      break;
  }
  const auto type = coded.ArenaType();
  if (choice.c % 2 && type) value.type = *type;
  value.coded = std::make_shared<CodedParameter>(std::move(coded));
}

}  // namespace

void MutateAttributes(Graph& graph, Node& node, const Choice& choice) {
  const auto& map = node.attrs.map();
  const Node& other = graph.nodes[choice.c % graph.nodes.size()];
  if (choice.b % 8 == 7) {
    const Attributes others = other.attrs;  // `other` may be `node`
    for (const auto& [name, value] : others.map()) node.attrs.Set(name, value);
    return;
  }
  if (map.empty()) return;
  const auto at = std::next(map.begin(), static_cast<std::ptrdiff_t>(choice.b / 32 % map.size()));
  const std::string name = at->first;
  if (choice.b % 8 == 5) {
    Attributes rest;
    for (const auto& [key, value] : map)
      if (key != name) rest.Set(key, value);
    node.attrs = rest;
  } else if (choice.b % 8 == 6) {
    node.attrs.Set(name, OfAnotherType(choice));
  } else {
    node.attrs.Set(name, Changed(at->second, choice));
  }
}

void MutateProgram(Program& program, const Choice& choice) {
  switch (choice.b % 8) {
    case 0:
      if (Dim* dim = At(program.space, choice.b / 8)) *dim = Dim(choice.Number());
      break;
    case 1:
      program.row_axes = static_cast<int32_t>(choice.c % 5) - 1;
      break;
    case 2:
      if (ProgramInput* input = At(program.inputs, choice.b / 8)) {
        if (choice.c % 2) input->codec = AnyCodec({choice.a, choice.b, choice.c / 2});
        if (choice.c % 4 == 0) input->mask = !input->mask;
        if (choice.c % 4 == 2) input->stream = static_cast<int32_t>(choice.Number());
      }
      break;
    case 3:
      if (ProgramConstant* constant = At(program.constants, choice.b / 8)) {
        if (choice.c % 2) constant->value = static_cast<float>(AnyFloat({choice.a, choice.b, choice.c / 2}));
        if (choice.c % 2 == 0) constant->extent = Dim(static_cast<int64_t>(choice.c / 2 % 5) - 2);
      }
      break;
    case 4:
    case 5:
      MutateInstruction(program, choice);
      break;
    case 6:
      if (ProgramOutput* output = At(program.outputs, choice.b / 8)) {
        if (choice.c % 3 == 0) output->kind = static_cast<OutputKind>(choice.c / 3 % 4);
        if (choice.c % 3 == 1)
          output->reg = static_cast<int32_t>(choice.c / 3 % static_cast<size_t>(program.Registers() + 2)) - 1;
        if (choice.c % 3 == 2) output->codec = AnyCodec({choice.a, choice.b, choice.c / 3});
      }
      break;
    case 7:
      if (choice.c % 2 && !program.instrs.empty()) program.instrs.pop_back();
      if (choice.c % 2 == 0) program.constants.push_back({static_cast<float>(choice.c), Dim(0)});
      break;
  }
}

void MutateCode(Plan& plan, const std::string& name, const Choice& choice) {
  for (StepGraph* step : {&plan.train, &plan.eval})
    for (Value& value : step->graph.values)
      if (value.coded && value.name == name) MutateCodeOf(value, choice);
}

}  // namespace act::fuzz
