#include "tools/flags.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/StringExtras.h>
#include <llvm/ADT/StringMap.h>
#include <llvm/ADT/StringSwitch.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "runtime/base/printable.h"

namespace act {
namespace {

namespace cl = llvm::cl;
using llvm::StringRef;

// The message about the first value that a parser refused; "" if none was. It is global because
// LLVM's parsers return only that they refuse. The command line is read once per process.
std::string refused_value;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

std::string WithDashes(StringRef name) { return (name.size() == 1 ? "-" : "--") + name.str(); }

bool Refuse(StringRef name, const char* expected, StringRef found, const char* hint) {
  if (refused_value.empty())
    refused_value =
        WithDashes(name) + ": expected " + expected + ", found '" + Printable(found) + "'\n" + hint;
  return true;  // LLVM's parsers return whether there is an error
}

bool IsDigits(StringRef text) { return !text.empty() && llvm::all_of(text, llvm::isDigit); }

// Is there a value, and is it empty? A flag that stands alone has none, which LLVM passes as no text at all.
bool IsEmptyValue(StringRef text) { return text.empty() && text.data() != nullptr; }

// The visible flag with the most similar spelling; "" if none is similar.
std::string NearestFlag(const llvm::StringMap<cl::Option*>& flags, StringRef name) {
  constexpr unsigned kMostEdits = 2;
  std::pair<unsigned, std::string> nearest{kMostEdits + 1, ""};
  for (const auto& entry : flags) {
    const unsigned edits = name.edit_distance(entry.first());
    const bool shown = entry.second->getOptionHiddenFlag() == cl::NotHidden;
    if (shown && edits < name.size()) nearest = std::min(nearest, {edits, entry.first().str()});
  }
  return nearest.second;
}

// What is wrong with an argument as a flag of the tool (with its command), or "". `alone`: no argument follows that
// could be its value. Sets `takes_next` if the next argument is its value.
std::string CheckFlag(StringRef tool, const llvm::StringMap<cl::Option*>& flags, StringRef argument,
                      bool alone, bool& takes_next) {
  const bool has_value = argument.contains('=');
  const StringRef name = argument.split('=').first.ltrim('-');
  const std::string help = "'" + tool.str() + " --help' lists the flags";
  if (name == "h") return "";  // the alias of --help, which LLVM registers while it parses
  const auto flag = flags.find(name);
  if (flag == flags.end()) {
    if (flags.count("O") && argument.size() > 2 && argument.starts_with("-O"))
      return Printable(argument) + ": no such flag\nwrite -O LEVEL, as -O L3";
    const std::string nearest = NearestFlag(flags, name);
    return Printable(argument.split('=').first) + ": no such flag\n" +
           (nearest.empty() ? "" : "did you mean " + WithDashes(nearest) + "? ") + help;
  }
  const cl::ValueExpected value = flag->second->getValueExpectedFlag();
  if (value == cl::ValueDisallowed && has_value) return WithDashes(name) + ": takes no value\n" + help;
  takes_next = value == cl::ValueRequired && !has_value;
  if (takes_next && alone)
    return WithDashes(name) + ": expected a value, found none\n" +
           (name.size() == 1 ? "write " + WithDashes(name) + " VALUE"
                             : "write " + WithDashes(name) + "=VALUE");
  return "";
}

// Whether the flag has a meaning without a value after "=": a glob that no name matches.
bool MayBeEmpty(StringRef flag) { return flag == "variance-edges"; }

// What is wrong with the command line before any value is looked at, or "". `empty` becomes the message
// about the first flag whose value is empty, as that of a shell's unset variable.
std::string CheckNames(StringRef tool, StringRef usage, int argc, const char* const* argv,
                       std::string& empty) {
  cl::SubCommand* command = &cl::SubCommand::getTopLevel();
  int first = 1;
  bool has_commands = false;
  for (cl::SubCommand* candidate : cl::getRegisteredSubcommands()) {
    if (candidate->getName().empty()) continue;
    has_commands = true;
    if (argc > 1 && candidate->getName() == argv[1]) command = candidate, first = 2;
  }
  if (has_commands && first == 1 && argc > 1 && argv[1][0] != '-')
    return "'" + Printable(argv[1]) + "': no such command\n" + usage.str();
  const std::string command_line = first == 2 ? (tool + " " + argv[1]).str() : tool.str();
  const llvm::StringMap<cl::Option*>& flags = cl::getRegisteredOptions(*command);
  for (int i = first; i < argc; ++i) {
    const StringRef argument = argv[i];
    if (argument == "--") break;  // files follow
    if (argument.size() < 2 || argument[0] != '-') continue;
    bool takes_next = false;
    const std::string wrong = CheckFlag(command_line, flags, argument, i + 1 == argc, takes_next);
    if (!wrong.empty()) return wrong;
    const bool has_value = takes_next || argument.contains('=');
    const StringRef value = takes_next ? StringRef(argv[i + 1]) : argument.split('=').second;
    const auto flag = flags.find(argument.split('=').first.ltrim('-'));
    if (has_value && value.empty() && empty.empty() && flag != flags.end() && !MayBeEmpty(flag->first())) {
      const StringRef expected = flag->second->ValueStr;
      empty = WithDashes(flag->first()) + ": expected " + (expected.empty() ? "a value" : expected).str() +
              ", found ''";
    }
    if (takes_next) ++i;
  }
  return "";
}

// Turns LLVM's message into ours. LLVM only checks the number of files, and its texts for that name
// no place.
std::string OfLlvm(StringRef tool, StringRef usage, StringRef message) {
  const std::string hint = "\n" + usage.str();
  if (message.contains("Not enough positional")) return "no file is given" + hint;
  if (message.contains("Too many positional")) return "there are too many files" + hint;
  message.consume_front((tool + ": ").str());
  return message.split('\n').first.str() + hint;
}

}  // namespace

bool HoldsInFloat32(double number) {
  const auto held = static_cast<double>(static_cast<float>(number));
  return std::isinf(held) == std::isinf(number) && (held == 0) == (number == 0);
}

bool WholeNumberParser::parse(cl::Option&, StringRef name, StringRef text, long long& value) {
  if (!text.getAsInteger(0, value)) return false;
  StringRef digits = text;
  digits.consume_front("-");
  return Refuse(name, IsDigits(digits) ? "a whole number of at most 63 bits" : "a whole number", text,
                "write it in digits, as 64");
}

bool SeedParser::parse(cl::Option&, StringRef name, StringRef text, unsigned long long& value) {
  if (!text.getAsInteger(0, value)) return false;
  return Refuse(name,
                IsDigits(text) ? "a whole number of at most 64 bits" : "a whole number that is not negative",
                text, "write it in digits, as 64");
}

bool NumberParser::parse(cl::Option&, StringRef name, StringRef text, double& value) {
  const char* const expected = !llvm::to_float(text, value) ? "a number"
                               : !HoldsInFloat32(value)     ? "a number that float32 holds"
                                                            : nullptr;
  return expected && Refuse(name, expected, text, "write it as 0.1 or 1e-3");
}

bool SwitchParser::parse(cl::Option&, StringRef name, StringRef text, bool& value) {
  const auto given = llvm::StringSwitch<std::optional<bool>>(text)
                         .Cases("", "true", "TRUE", "True", "1", true)
                         .Cases("false", "FALSE", "False", "0", false)
                         .Default(std::nullopt);
  if (!given || IsEmptyValue(text)) return Refuse(name, "true or false", text, "the flag alone means true");
  value = *given;
  return false;
}

bool OptionalTextParser::parse(cl::Option& flag, StringRef name, StringRef text, std::string& value) {
  value = text.str();
  return IsEmptyValue(text) &&
         Refuse(name, flag.ValueStr.str().c_str(), text, "the flag alone, without =, needs none");
}

bool ReadCommandLine(StringRef tool, StringRef usage, StringRef overview, int argc, const char* const* argv) {
  std::string empty_value;
  const std::string wrong_name = CheckNames(tool, usage, argc, argv, empty_value);
  if (!wrong_name.empty()) {
    UsageError(tool, wrong_name);
    return false;
  }
  std::string message;
  llvm::raw_string_ostream messages(message);
  const bool parsed = cl::ParseCommandLineOptions(argc, argv, overview, &messages);
  if (parsed && empty_value.empty()) return true;
  UsageError(tool, !refused_value.empty() ? refused_value
                   : parsed               ? empty_value
                                          : OfLlvm(tool, usage, messages.str()));
  return false;
}

int UsageError(StringRef tool, StringRef message) {
  const auto [what, hint] = message.split('\n');
  llvm::errs() << tool << ": error: " << what << "\n";
  if (!hint.trim().empty()) llvm::errs() << "hint: " << hint.trim() << "\n";
  return kWrongUsage;
}

}  // namespace act
