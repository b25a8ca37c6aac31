"""Runs the code cells of a notebook in order, and compares their output with the saved output.

  BOXCAR_PROGRAM=build/boxcar PYTHONPATH=build/python python3 tests/python/notebook.py docs/tutorial.ipynb [--write]

--write saves the outputs instead: text, tables of pandas as HTML, figures of matplotlib as PNG. Comparisons are only of text.
A cell with a tag "needs-pandas" is skipped if pandas cannot be imported; --write needs all of them. Cells run in one
namespace, in a folder of their own. Jupyter is not needed.
"""
import ast
import base64
import contextlib
import importlib.util
import io
import json
import os
import pathlib
import sys
import tempfile


def is_missing(cell):
    """The module that a cell needs and that is not there, else None."""
    needs = [tag[len("needs-"):] for tag in cell["metadata"].get("tags", []) if tag.startswith("needs-")]
    return next((name for name in needs if importlib.util.find_spec(name) is None), None)


def run_cell(source, names):
    """Runs a cell: what it printed, and the value of its last line, if that is an expression without a semicolon."""
    tree = ast.parse(source)
    shown = None
    if tree.body and isinstance(tree.body[-1], ast.Expr) and not source.rstrip().endswith(";"):
        shown = ast.Expression(tree.body.pop().value)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), names)
        value = eval(compile(shown, "cell", "eval"), names) if shown else None
    return printed.getvalue(), value


def figures():
    """Open figures of matplotlib as PNGs, which are then closed."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    pictures = []
    for number in pyplot.get_fignums() if pyplot else []:
        picture = io.BytesIO()
        pyplot.figure(number).savefig(picture, format="png", dpi=72, bbox_inches="tight", metadata={"Software": None})
        pictures.append(base64.b64encode(picture.getvalue()).decode())
        pyplot.close(number)
    return pictures


def lines(text):
    return text.splitlines(keepends=True)


def outputs_of(source, names, count):
    """The outputs of a cell, as a notebook saves them."""
    printed, value = run_cell(source, names)
    outputs = [{"name": "stdout", "output_type": "stream", "text": lines(printed)}] if printed else []
    if value is not None:
        data = {"text/plain": lines(repr(value))}
        if hasattr(value, "_repr_html_"):
            data["text/html"] = lines(value._repr_html_())
        outputs.append({"data": data, "execution_count": count, "metadata": {}, "output_type": "execute_result"})
    for picture in figures():
        outputs.append({"data": {"image/png": picture, "text/plain": ["<Figure>"]}, "metadata": {}, "output_type": "display_data"})
    return outputs


def text_of(outputs):
    return "".join("".join(one.get("text", one.get("data", {}).get("text/plain", []))) + "\n" for one in outputs)


def run(notebook, say):
    """Runs all cells and yields each code cell with its outputs, None where it is skipped."""
    names = {"__name__": "__main__"}
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for count, cell in enumerate(code, 1):
        missing = is_missing(cell)
        if missing:
            say(f"cell {count} skipped: no {missing}")
        yield cell, count, None if missing else outputs_of("".join(cell["source"]), names, count)


def check(path, say=print):
    """What differs from the saved outputs, as a list of texts."""
    differ = []
    with in_a_folder():
        for cell, count, outputs in run(json.loads(path.read_text()), say):
            if outputs is not None and text_of(outputs) != text_of(cell["outputs"]):
                differ.append(f"cell {count}: saved\n{text_of(cell['outputs'])}now\n{text_of(outputs)}")
    return differ


def write(path):
    notebook = json.loads(path.read_text())
    with in_a_folder():
        for cell, count, outputs in run(notebook, sys.exit):
            cell["execution_count"], cell["outputs"] = count, outputs
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


@contextlib.contextmanager
def in_a_folder():
    before = os.getcwd()
    os.environ.setdefault("MPLBACKEND", "Agg")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


if __name__ == "__main__":
    notebook_path = pathlib.Path(sys.argv[1]).resolve()
    if sys.argv[2:] == ["--write"]:
        write(notebook_path)
    else:
        found = check(notebook_path)
        print("\n".join(found))
        sys.exit(1 if found else 0)
