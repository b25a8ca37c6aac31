#!/usr/bin/env python3
"""The JSON Schemas of cli/schemas/: as one schema that a validator takes, and as the tables of the pages in docs/.

    tests/schemas/schemas.py           names the pages whose tables differ from the schemas
    tests/schemas/schemas.py --write   writes them

A page has the tables of simulate.json between the lines "<!-- schema simulate.json -->" and "<!-- end of schema -->".
"""
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "cli" / "schemas"
BLOCK = re.compile(r"(<!-- schema (\S+) -->\n).*?(<!-- end of schema -->\n)", re.DOTALL)


def load():
    return {path.name: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}


def bundle(name):
    """The schema of one document with all files that it refers to inside, so that no validator has to find them."""

    def inside(node, file):
        if isinstance(node, list):
            return [inside(one, file) for one in node]
        if not isinstance(node, dict):
            return node
        made = {key: inside(value, file) for key, value in node.items()}
        if isinstance(node.get("$ref"), str):
            target, _, pointer = node["$ref"].partition("#")
            made["$ref"] = f"#/$defs/{target or file}{pointer}"
        return made

    files = {file: inside(schema, file) for file, schema in load().items()}
    for schema in files.values():
        schema.pop("$schema")
        schema.pop("$id")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$ref": f"#/$defs/{name}", "$defs": files}


def name_of(reference):
    return reference.split("/")[-1].removesuffix(".json")


def type_text(schema, plural=False):
    ending = "s" if plural else ""
    if "$ref" in schema:
        return f"`{name_of(schema['$ref'])}`"
    if "const" in schema:
        return f"`{schema['const']}`"
    if "oneOf" in schema:
        return " or ".join(type_text(one) for one in schema["oneOf"])
    if "enum" in schema:
        return "word" + ending
    if isinstance(schema["type"], list):
        return " or ".join(type_text({"type": one}, plural) for one in schema["type"])
    if schema["type"] == "array" and "items" in schema:
        return f"list{ending} of {type_text(schema['items'], True)}"
    if schema["type"] == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object{ending} of {type_text(schema['additionalProperties'], True)}"
    words = {"number": "number", "integer": "whole number", "string": "text", "boolean": "true or false",
             "array": "list", "object": "object", "null": "null"}
    word = words[schema["type"]]
    return word if word in ("true or false", "null") else word + ending


def described(value):
    return re.sub(r"\((\w+\.md)\)", r"([\1](\1))", value["description"])


def rows(schema):
    required = schema.get("required", [])
    for key, value in schema.get("properties", {}).items():
        kind = type_text(value) + ("" if key in required else ", optional")
        yield f"| `{key}` | {kind} | {described(value)} |"
    for pattern, value in schema.get("patternProperties", {}).items():
        keys = ", ".join(f"`{key}`" for key in pattern.strip("^()$").split("|"))
        yield f"| {keys} | {type_text(value)}, optional | {described(value)} |"


def objects(schema):
    """Title and schema of each object with keys in a file, the document first."""
    root, defs = schema, schema.get("$defs", {})
    shown = set()
    if "$ref" in root:
        shown.add(name_of(root["$ref"]))
        root = defs[name_of(root["$ref"])]
    if "properties" in root:
        yield "", root
    for name, one in defs.items():
        if name not in shown:
            yield name, one


def tables(schema):
    text = ""
    for title, one in objects(schema):
        bases = [f"the keys of `{name_of(base['$ref'])}`, and" for base in one.get("allOf", [])]
        if title:
            text += f"`{title}`: {', '.join(bases)}".rstrip(": ") + "\n\n"
        text += "| key | type | is |\n| --- | --- | --- |\n" + "\n".join(rows(one)) + "\n\n"
    return text


def with_tables(page):
    files = load()
    return BLOCK.sub(lambda block: block[1] + "\n" + tables(files[block[2]]) + block[3], page)


def pages():
    return sorted((ROOT / "docs").glob("*.md"))


def documented():
    """Names of the files whose tables some page has."""
    return [block[2] for page in pages() for block in BLOCK.finditer(page.read_text())]


if __name__ == "__main__":
    differing = [page for page in pages() if with_tables(page.read_text()) != page.read_text()]
    for page in differing:
        print(page.relative_to(ROOT))
        if "--write" in sys.argv[1:]:
            page.write_text(with_tables(page.read_text()))
    sys.exit(1 if differing and "--write" not in sys.argv[1:] else 0)
