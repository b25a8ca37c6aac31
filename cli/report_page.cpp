#include "cli/report_page.h"

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "sbp/error.h"

namespace boxcar::cli {

std::string script_json(const nlohmann::ordered_json& document) {
  constexpr int one_line = -1;
  constexpr bool ascii = true;
  const std::string text =
      document.dump(one_line, ' ', ascii, nlohmann::ordered_json::error_handler_t::replace);
  std::string safe;
  safe.reserve(text.size());
  for (const char c : text) {  // "<" occurs only in strings
    if (c == '<')
      safe += "\\u003c";
    else
      safe += c;
  }
  return safe;
}

std::string escape_html(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      case '\'':
        safe += "&#39;";
        break;
      default:
        safe += c;
    }
  }
  return safe;
}

std::string report_page(const std::string& title, const nlohmann::ordered_json& document,
                        const PageParts& parts) {
  const std::array<std::pair<std::string_view, std::string>, 6> values{
      {{"{{title}}", escape_html(title)},
       {"{{style}}", std::string(parts.style)},
       {"{{document}}", script_json(document)},
       {"{{license}}", std::string(parts.license)},
       {"{{library}}", std::string(parts.library)},
       {"{{script}}", std::string(parts.script)}}};
  std::string page;
  std::string_view rest = parts.html;  // inserted text is not searched again
  for (;;) {
    size_t next = std::string_view::npos;
    const std::pair<std::string_view, std::string>* value = nullptr;
    for (const auto& one : values)
      if (const size_t found = rest.find(one.first); found < next) next = found, value = &one;
    page += rest.substr(0, next);
    if (!value) return page;
    page += value->second;
    rest.remove_prefix(next + value->first.size());
  }
}

void check_page_library() {
  if (page_parts().library.empty())
    throw Error::cannot_run("",
                            "this build lacks D3 (install node-d3-scale, node-d3-axis, node-d3-shape and "
                            "node-d3-zoom, configure again and build)");
}

}  // namespace boxcar::cli
