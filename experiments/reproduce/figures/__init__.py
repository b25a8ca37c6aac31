"""Every table and figure, in the paper's order, and those that are missing."""
from . import actors, jpeg_files, layouts, split_models, systems, training

ORDER = [*(f"table{n}" for n in range(1, 5)), *(f"fig{n}" for n in (2, 4, 5, 6, 7, 9, "9jpeg", *range(10, 17))), "systems"]
_ALL = {figure.name: figure for part in (layouts, actors, jpeg_files, split_models, training, systems) for figure in part.FIGURES}
FIGURES = {name: _ALL[name] for name in ORDER}
NOT_THERE = {
    "fig1": "a drawing of an idea, without a number",
    "fig3": "a drawing of other frameworks' callbacks, without a number",
    "fig8": "nothing prints an actor's address; tests/actors/address_test.cpp holds its fields",
}
