"""Every table and figure, in the paper's order, and those that are not there."""
from . import actors, layouts, training

ORDER = ["table1", "table2", "table3", "table4", "fig2", "fig4", "fig5", "fig6", "fig7", "fig9", "fig10", "fig11", "fig12", "fig13", "fig14", "fig15", "fig16"]
_ALL = {figure.name: figure for part in (layouts, actors, training) for figure in part.FIGURES}
FIGURES = {name: _ALL[name] for name in ORDER}
NOT_THERE = {
    "fig1": "a drawing of an idea, without a number",
    "fig3": "a drawing of other frameworks' callbacks, without a number",
    "fig8": "nothing prints an actor's address; tests/actors/address_test.cpp holds its fields",
}
