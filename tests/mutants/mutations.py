"""Mutants of one module: the operators of cosmic-ray and two of our own for statements that act."""

from __future__ import annotations

import ast
import difflib
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

# Of the replacements of one operator only those that a programmer could have written by mistake.
REPLACED = {
    "ReplaceComparisonOperator": (
        *("Eq_NotEq", "NotEq_Eq", "Is_IsNot", "IsNot_Is"),
        *("Lt_LtE", "Lt_GtE", "LtE_Lt", "LtE_Gt", "Gt_GtE", "Gt_LtE", "GtE_Gt", "GtE_Lt"),
    ),
    # `/` joins paths and `%` formats texts here: their replacements only raise TypeError.
    "ReplaceBinaryOperator": ("Add_Sub", "Sub_Add", "FloorDiv_Mul", "BitOr_BitAnd", "BitAnd_BitOr", "LShift_RShift"),
    "ReplaceUnaryOperator": ("USub_UAdd", "Delete_Not"),
}
SINGLE = (
    *("AddNot", "ReplaceTrueWithFalse", "ReplaceFalseWithTrue", "ReplaceAndWithOr", "ReplaceOrWithAnd"),
    *("ReplaceBreakWithContinue", "ReplaceContinueWithBreak", "ExceptionReplacer", "NumberReplacer"),
    *("RemoveDecorator", "ZeroIterationForLoop"),
)


@dataclass(frozen=True)
class Mutant:
    """A module with one change. `before` and `after`: the changed lines; `function`: dotted name around them."""

    line: int
    function: str
    before: str
    after: str
    source: str


class RemoveStatement:
    """Replace a call or `raise` on a line of its own by `pass`."""

    def mutation_positions(self, node: Any) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
        """Positions of such statements at this node of parso's tree."""
        if node.type == "simple_stmt" and node.children[0].type in ("atom_expr", "raise_stmt", "await"):
            yield node.children[0].start_pos, node.children[0].end_pos

    def mutate(self, node: Any, _index: int) -> Any:
        """The node with `pass` in place of its statement."""
        from parso.python.tree import Keyword

        first = node.children[0].get_first_leaf()
        node.children[0] = Keyword("pass", first.start_pos, prefix=first.prefix)
        return node


class NegateCondition:
    """Negate the conditions of a comprehension and of a ternary expression."""

    def mutation_positions(self, node: Any) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
        """Positions of such conditions at this node of parso's tree."""
        if node.type == "comp_if":
            yield node.children[1].start_pos, node.children[1].end_pos

    def mutate(self, node: Any, _index: int) -> Any:
        """The node with its condition negated."""
        import parso

        node.children[1] = parso.parse(f" not ({node.children[1].get_code().strip()})").children[0]
        return node


def mutants(source: str, sample: int, seed: int) -> list[Mutant]:
    """`sample` mutants of a module drawn with `seed` (0: all), in the order of their lines.

    Changes without effect are left out: annotations, and waits and limits that differ by a second.
    """
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.mutating import mutate_code

    nodes = list(ast_nodes(get_ast(source)))
    places = [
        (operator, occurrence)
        for operator in _operators()
        for occurrence in range(sum(len(list(operator.mutation_positions(node))) for node in nodes))
    ]
    if sample:
        random.Random(seed).shuffle(places)
    found: list[Mutant] = []
    seen = {"", _meaning(source)}
    for operator, occurrence in places:
        changed = mutate_code(source, operator, occurrence) or ""
        meaning = _meaning(changed)
        if meaning not in seen:
            seen.add(meaning)
            found.append(_mutant(source, changed))
        if sample and len(found) == sample:
            break
    return sorted(found, key=lambda mutant: (mutant.line, mutant.after))


def _operators() -> Iterator[Any]:
    from cosmic_ray.plugins import get_operator

    names = [*SINGLE, *(f"{family}_{kind}" for family, kinds in REPLACED.items() for kind in kinds)]
    for name in names:
        yield get_operator(f"core/{name}")()
    yield RemoveStatement()
    yield NegateCondition()


def _meaning(source: str) -> str:
    """The syntax tree without annotations, imports for types, and exact limits and times; empty if there is none."""
    try:
        tree = _Plain().visit(ast.parse(source))
    except SyntaxError:
        return ""
    return ast.dump(tree)


class _Plain(ast.NodeTransformer):
    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.Constant("")
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Name) and node.func.id == "dataclass":
            node.keywords = []
        return self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        name = node.targets[0].id if isinstance(node.targets[0], ast.Name) else ""
        if name.startswith("MAX_") or (name.isupper() and _is_large(node.value)):
            node.value = ast.Constant("limit")
        return self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        return ast.Constant("seconds") if isinstance(node.value, float) else node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        inner = node.operand
        if isinstance(node.op, ast.Not) and isinstance(inner, ast.UnaryOp) and isinstance(inner.op, ast.Not):
            return self.generic_visit(inner.operand)
        if (
            isinstance(node.op, ast.USub | ast.UAdd)
            and isinstance(inner, ast.Constant)
            and isinstance(inner.value, float)
        ):
            return ast.Constant("seconds")
        return self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        if "monotonic" in ast.dump(node):  # two readings of a clock are not equal
            node.ops = [{ast.LtE: ast.Lt(), ast.GtE: ast.Gt()}.get(type(op), op) for op in node.ops]
        return self.generic_visit(node)

    def visit_If(self, node: ast.If) -> ast.AST:
        names = {found.id for found in ast.walk(node.test) if isinstance(found, ast.Name)}
        return ast.Pass() if names == {"TYPE_CHECKING"} else self.generic_visit(node)


def _is_large(value: ast.expr) -> bool:
    """Whether a constant is a number whose exact value nobody can rely on, such as a largest size or count."""
    if isinstance(value, ast.BinOp):  # 64 << 20
        return isinstance(value.left, ast.Constant) and isinstance(value.right, ast.Constant)
    return isinstance(value, ast.Constant) and isinstance(value.value, int) and value.value > 10


def _mutant(source: str, changed: str) -> Mutant:
    old, new = source.splitlines(), changed.splitlines()
    blocks = [
        code for code in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes() if code[0] != "equal"
    ]
    first, last = blocks[0], blocks[-1]
    before = " ".join(line.strip() for line in old[first[1] : last[2]])
    after = " ".join(line.strip() for line in new[first[3] : last[4]])
    return Mutant(first[1] + 1, _function(source, first[1] + 1), before, after, changed)


def _function(source: str, line: int) -> str:
    """Dotted name of the innermost function or class around a line."""
    names: list[str] = []
    body: list[ast.stmt] = ast.parse(source).body
    while True:
        around = [
            node
            for node in body
            if isinstance(node, ast.FunctionDef | ast.ClassDef)
            and min([node.lineno, *(item.lineno for item in node.decorator_list)]) <= line <= (node.end_lineno or 0)
        ]
        if not around:
            return ".".join(names)
        names.append(around[0].name)
        body = around[0].body
