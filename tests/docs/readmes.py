"""Compares each folder's README.md with the files of its folder.

  python3 tests/docs/readmes.py [ROOT]

It fails if a top folder with a CMakeLists.txt has no README.md, if a README.md omits a source file of its folder or
one of its subfolders, if it names a file that does not exist, or if it begins with a table instead of a paragraph that
says what to read it for. `name.*`, `name.h` and `name.cpp` each stand for every file of that name, whatever it ends
in; capitals and `*` stand for any text (`kernels_GROUP.cpp`). In columns with the heading `file`, `script` or `folder`, the end may be left out. The files of
a subfolder without a README.md need not be listed.
"""
import os
import pathlib
import re
import sys

SOURCES = {".h", ".cpp", ".cu", ".cuh", ".proto", ".py"}
PAGES = {"docs": {".md", ".ipynb"}}  # folders that list more than sources
HEADINGS = {"file", "script", "folder", "page"}
SKIPPED = {"__pycache__", "__init__.py", "README.md"}


def words(line):
    """Names in a line: what stands between backticks, and what links lead to."""
    linked = [to.split("#")[0] for to in re.findall(r"\]\(([^)\s]+)\)", line) if "://" not in to]
    return re.findall(r"`([^`]+)`", re.sub(r"\[`[^`]+`\]\([^)]*\)", "", line)), [to for to in linked if to]


def pattern(name):
    """A name's stem as a regular expression, or None for words that are no names of files."""
    if not re.fullmatch(r"[\w./*-]+", name) or name.startswith(("/", ".", "-")):
        return None
    stem = re.sub(r"\.(\*|\w+)$", "", name.rstrip("/"))
    return re.sub(r"[A-Z]{2,}|\*", "@", stem).replace(".", r"\.").replace("@", r"[\w.-]*")


def stem(path):
    return re.sub(r"\.\w+$", "", path)


def listed(folder):
    """Source files of a folder, and subfolders that hold anything."""
    files, subfolders = [], []
    kinds = SOURCES | PAGES.get(folder.name, set())
    for entry in sorted(folder.iterdir()):
        if entry.name in SKIPPED or entry.name.startswith("."):
            continue
        if entry.is_dir():
            if any(f.is_file() and "__pycache__" not in f.parts for f in entry.rglob("*")):
                subfolders.append(entry.name)
        elif entry.suffix in kinds or (not entry.suffix and os.access(entry, os.X_OK)):
            files.append(entry.name)
    return files, subfolders


def is_there(name, folder, root):
    """Whether a name leads to something: from its folder, from the root, or from a subfolder."""
    bases = [folder, root, *(folder / sub for sub in listed(folder)[1])]
    if name.endswith("/"):
        return any((base / name).is_dir() for base in bases)
    last = re.compile(pattern(os.path.basename(name)))
    end = re.search(r"\.\w+$|$", name)[0]  # `name.cpp` is that very file
    wheres = [base / os.path.dirname(name) for base in bases]
    return any(last.fullmatch(stem(file.name)) and file.name.endswith(end)
               for where in wheres if where.is_dir() for file in where.iterdir())


def faults(readme, root):
    folder, text = readme.parent, readme.read_text()
    lines, found, names, column = text.split("\n"), [], set(), None
    first = next((line for line in lines[1:] if line.strip()), "")
    if not lines[0].startswith("# ") or first.startswith(("|", "#", "    ", "```")):
        found.append("begin with a title and a paragraph that says what to read it for")
    for number, line in enumerate(lines):
        quoted, linked = words(line)
        for to in linked:
            if not (folder / to).exists():
                found.append(f"line {number + 1} links to `{to}`, which is not there")
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else []
        if cells and not (number and lines[number - 1].startswith("|")):
            column = next((i for i, cell in enumerate(cells) if cell in HEADINGS), None)
        here = words(cells[column])[0] if cells and column is not None and column < len(cells) else []
        names.update(linked)
        for name in quoted:
            is_file = re.search(r"\.(\*|h|cpp|cu|cuh|proto|py)$|/", name)
            if not pattern(name) or name.startswith("build") or not (is_file or name in here):
                continue
            names.add(name)
            if not is_there(name, folder, root):
                found.append(f"line {number + 1} names `{name}`, which is not there")
    stems = [re.compile(p) for p in map(pattern, names) if p]
    files, subfolders = listed(folder)
    for file in files:
        if not any(p.fullmatch(stem(file)) for p in stems):
            found.append(f"`{file}` is missing")
    for sub in subfolders:
        if not any(name.startswith(sub + "/") for name in names):
            found.append(f"`{sub}/` is missing")
    return [f"{readme.relative_to(root)}: {fault}" for fault in found]


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent.parent).resolve()
    tops = [d for d in sorted(root.iterdir()) if d.is_dir() and not d.name.startswith((".", "build"))]
    readmes = [page for top in tops for page in sorted(top.rglob("README.md")) if "node_modules" not in page.parts]
    found = [f"{top.name}/ has no README.md" for top in tops
             if (top / "CMakeLists.txt").exists() and not (top / "README.md").exists()]
    found += [fault for readme in readmes for fault in faults(readme, root)]
    print("\n".join(found) if found else f"{len(readmes)} pages name the files of their folders")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
