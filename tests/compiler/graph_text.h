// Graphs written as text, in the form of compiler/ir/dump.h, so that a test's model is read at a
// glance:
//
//   x = input f32[N,8,8,4]
//   w = parameter f32[4,4,1,1]
//   y = Conv(x, w) {strides=[1,1], dilations=[1,1], pads=[0,0,0,0]}
//   most, at = MaxPool(y) {kernel_shape=[2,2], strides=[2,2], dilations=[1,1], pads=[0,0,0,0]}
//   rows: f32[N,64] = Reshape(most)
//   return loss
//
// Types are inferred, except for operators whose result type is a choice. A number among a node's
// operands is a scalar constant, and `_` is a missing operand. An attribute's number with a point
// or an exponent is a float, and so is a list with such a number.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "compiler/ops/graph_builder.h"
#include "tests/compiler/compiled_step.h"

namespace act::graph_text {

inline std::string Trim(const std::string& text) {
  const size_t first = text.find_first_not_of(" \n"), last = text.find_last_not_of(" \n");
  return first == std::string::npos ? "" : text.substr(first, last - first + 1);
}

// The parts between commas that are outside brackets.
inline std::vector<std::string> SplitList(const std::string& text) {
  std::vector<std::string> parts;
  std::string part;
  int depth = 0;
  for (const char c : text) {
    depth += c == '[';
    depth -= c == ']';
    if (c == ',' && depth == 0) {
      parts.push_back(Trim(part));
      part.clear();
    } else {
      part += c;
    }
  }
  if (!Trim(part).empty()) parts.push_back(Trim(part));
  return parts;
}

// The text between the first `open` and the last `close`.
inline std::string Between(const std::string& text, char open, char close) {
  const size_t begin = text.find(open), end = text.rfind(close);
  if (begin == std::string::npos || end == std::string::npos || end < begin) return "";
  return text.substr(begin + 1, end - begin - 1);
}

inline Dim ParseDim(const std::string& text) {
  const size_t at = text.find('N');
  if (at == std::string::npos) return {std::stoll(text)};
  return {0, at == 0 ? 1 : std::stoll(text)};  // "N", "4N"
}

inline TensorType ParseType(const std::string& text) {
  TensorType type;
  const std::string name = text.substr(0, text.find('['));
  for (int d = 0; d <= static_cast<int>(kLastDType); ++d)
    if (ToString(static_cast<DType>(d)) == name) type.dtype = static_cast<DType>(d);
  for (const std::string& dim : SplitList(Between(text, '[', ']'))) type.dims.push_back(ParseDim(dim));
  return type;
}

inline Attribute ParseAttribute(const std::string& text) {
  const bool number = !text.empty() && text.find_first_not_of("-+.e0123456789") == std::string::npos;
  if (number && text.find_first_of(".e") != std::string::npos) return std::stod(text);
  if (number) return int64_t{std::stoll(text)};
  if (text[0] != '[') return text;
  if (text.find_first_of(".e") != std::string::npos) {
    std::vector<double> list;
    for (const std::string& part : SplitList(Between(text, '[', ']'))) list.push_back(std::stod(part));
    return list;
  }
  std::vector<int64_t> list;
  for (const std::string& part : SplitList(Between(text, '[', ']'))) list.push_back(std::stoll(part));
  return list;
}

class Parser {
 public:
  ImportResult Run(const std::string& text) {
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);)
      if (!Trim(line).empty()) Line(Trim(line));
    return testing_step::ModelOf(std::move(graph_));
  }

 private:
  void Line(const std::string& line) {
    if (line.starts_with("return ")) {
      for (const std::string& name : SplitList(line.substr(7))) graph_.outputs.push_back(Operand(name));
      return;
    }
    const size_t equals = line.find(" = ");
    ASSERT_NE(equals, std::string::npos) << line;
    const std::vector<std::string> names = SplitList(line.substr(0, equals));
    const std::string right = line.substr(equals + 3);
    const size_t space = right.find(' ');
    const std::string kind = right.substr(0, space);
    if (kind == "input" || kind == "parameter" || kind == "buffer") {
      values_[names.at(0)] = Source(names.at(0), kind, ParseType(right.substr(space + 1)));
      return;
    }
    const size_t brace = right.find('{');
    std::vector<ValueId> operands;
    for (const std::string& name : SplitList(Between(right.substr(0, brace), '(', ')')))
      operands.push_back(Operand(name));
    Attributes attrs;
    if (brace != std::string::npos)
      for (const std::string& part : SplitList(Between(right.substr(brace), '{', '}')))
        attrs.Set(part.substr(0, part.find('=')), ParseAttribute(part.substr(part.find('=') + 1)));
    std::vector<std::string> outputs;
    std::vector<TensorType> wanted;
    for (const std::string& name : names) {
      const size_t colon = name.find(": ");
      outputs.push_back(name.substr(0, colon));
      if (colon != std::string::npos) wanted.push_back(ParseType(name.substr(colon + 2)));
    }
    const std::vector<ValueId> made =
        Take(builder_.Add(right.substr(0, right.find('(')), operands, attrs, outputs.at(0),
                          static_cast<int>(outputs.size()), wanted));
    for (size_t i = 0; i < outputs.size(); ++i) values_[outputs[i]] = made.at(i);
  }

  ValueId Source(const std::string& name, const std::string& kind, const TensorType& type) {
    if (kind == "input") return builder_.Input(name, type, ValueKind::kInput);
    std::vector<float> data(static_cast<size_t>(type.Elements().fixed), 1);
    return builder_.Input(name, type, kind == "buffer" ? ValueKind::kBuffer : ValueKind::kParameter,
                          testing_step::HostFloats(data));
  }

  ValueId Operand(const std::string& name) {
    if (name == "_") return kNoValue;
    const auto found = values_.find(name);
    if (found != values_.end()) return found->second;
    EXPECT_EQ(name.find_first_not_of("-+.e0123456789"), std::string::npos)
        << name << " is made by no line above";
    return builder_.Scalar(std::stof(name));
  }

  Graph graph_;
  GraphBuilder builder_{graph_};
  std::map<std::string, ValueId> values_;
};

// The model whose loss is the first of the values that `text` returns. All parameters are 1
// and are trained.
inline ImportResult Parse(const std::string& text) { return Parser().Run(text); }

}  // namespace act::graph_text
