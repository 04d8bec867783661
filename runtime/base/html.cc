#include "runtime/base/html.h"

#include <llvm/ADT/StringExtras.h>
#include <llvm/Support/raw_ostream.h>

namespace act {
namespace {

constexpr char kStyle[] =
    ":root{color-scheme:light dark;--bg:#fff;--fg:#1d2433;--muted:#5c6675;--grid:#e3e6eb;--line:#1f5fa8;"
    "--band:#1f5fa838;--mark:#c2410c}"
    "@media(prefers-color-scheme:dark){:root{--bg:#15181e;--fg:#e4e7ec;--muted:#9aa4b2;--grid:#2d333d;"
    "--line:#6fb1ff;--band:#6fb1ff3d;--mark:#ff9a5c}}"
    "body{font:15px/1.5 system-ui,sans-serif;max-width:1040px;margin:2em auto;padding:0 1em;"
    "background:var(--bg);color:var(--fg)}"
    "table{border-collapse:collapse}td,th{padding:.15em .8em;text-align:left;vertical-align:top}"
    "td.n{text-align:right;font-variant-numeric:tabular-nums}td:first-child{padding-left:0}"
    "svg{width:100%;height:auto}h2{margin:1.4em 0 .3em;font-size:1.15em}"
    ".muted{color:var(--muted)}"
    ".key{display:inline-block;width:.8em;height:.8em;margin-right:.5em}"
    ".at{fill:transparent}.at:hover{fill:#8884}";

}  // namespace

std::string HtmlEscaped(const std::string& text) {
  std::string escaped;
  llvm::raw_string_ostream out(escaped);
  llvm::printHTMLEscaped(text, out);
  return out.str();
}

std::string HtmlHead(const std::string& title) {
  return "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
         "<meta name=\"viewport\" content=\"width=device-width\"><title>" +
         HtmlEscaped(title) + "</title>\n<style>" + kStyle + "</style></head><body>\n";
}

}  // namespace act
