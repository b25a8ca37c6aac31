// boxcar._core: the algebra and the parser of plans, which answer at once, in the interpreter's process.
// Answers are the documents of `boxcar sbp --json` and of cli/plan_document.h, as text. Simulations run in
// the program (boxcar/_program.py).
//
// No function touches a Python object while it works, so the GIL is released.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/plan_document.h"
#include "cli/sbp_documents.h"
#include "ir/plan.h"
#include "sbp/error.h"

namespace py = pybind11;
using namespace boxcar;

namespace {

std::string text_of(const nlohmann::ordered_json& document) {
  return document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string rules(cli::RulesQuestion question) { return text_of(cli::to_json(cli::layout_rules(question))); }

std::string plan(const std::string& text) {
  const ir::Plan parsed = ir::parse_plan(text);
  ir::check(parsed);
  return text_of(cli::to_json(parsed));
}

// Error as the exception of boxcar/_errors.py that has its exit code.
void raise(std::exception_ptr thrown) {
  try {
    if (thrown) std::rethrow_exception(thrown);
  } catch (const Error& error) {
    const py::object kind =
        py::module_::import("boxcar._errors").attr("by_exit_code")[py::int_(static_cast<int>(error.code()))];
    PyErr_SetString(kind.ptr(), error.what());
  }
}

}  // namespace

PYBIND11_MODULE(_core, module) {
  py::register_exception_translator(&raise);
  const py::call_guard<py::gil_scoped_release> released;
  module.def("ops", &cli::op_names, released);
  module.def(
      "rules",
      [](std::string op, std::vector<std::string> shapes, std::string devices, std::vector<std::string> attrs,
         std::string dtype) {
        return rules(
            {std::move(op), std::move(devices), std::move(dtype), std::move(shapes), std::move(attrs)});
      },
      py::arg("op"), py::arg("shapes"), py::arg("devices"), py::arg("attrs"), py::arg("dtype"), released);
  module.def(
      "route",
      [](std::string shape, std::string dtype, const std::vector<std::string>& from,
         const std::vector<std::string>& to) {
        const auto end = [](const char* name, const std::vector<std::string>& words) {
          return cli::End{name, words.at(0), words.at(1), words.at(2)};
        };
        return text_of(cli::to_json(
            cli::route_between({std::move(shape), std::move(dtype), end("from", from), end("to", to)})));
      },
      py::arg("shape"), py::arg("dtype"), py::arg("from_"), py::arg("to"), released);
  module.def("plan", &plan, py::arg("text"), released);
}
