"""The mutants of a file: its source with one small change, found in its syntax tree; tools/mutants.py runs them.

Messages of errors, docstrings, annotations, assertions and what is for type checkers stay as they are. So do
definitions at the top of a file, and the first value of a variable: without them nothing runs, which tells nothing.
"""

import ast
import itertools
import re
import tomllib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
EQUIVALENT = ROOT / "tools" / "equivalent_mutants.toml"
MUTATED = ("src/regard/align/*.py", "src/regard/attention/mask.py", "src/regard/decode/*.py")
COMPARED: dict[type[ast.cmpop], tuple[str, tuple[str, ...]]] = {
    ast.Lt: ("<", ("<=", ">=")), ast.LtE: ("<=", ("<", ">")), ast.Gt: (">", (">=", "<=")), ast.GtE: (">=", (">", "<")),
    ast.Eq: ("==", ("!=",)), ast.NotEq: ("!=", ("==",)), ast.Is: ("is", ("is not",)), ast.IsNot: ("is not", ("is",)),
    ast.In: ("in", ("not in",)), ast.NotIn: ("not in", ("in",)),
}  # fmt: skip
OPERATORS: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*"), ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "*"), ast.Pow: ("**", "*"), ast.BitAnd: ("&", "|"), ast.BitOr: ("|", "&"), ast.LShift: ("<<", ">>"),
}  # fmt: skip
NAMES = {"any": "all", "all": "any", "min": "max", "max": "min", "amin": "amax", "amax": "amin"}
MESSAGES = ("got", "expected", "cure")  # keywords of our errors and ranges


@dataclass(frozen=True)
class Mutant:
    """A file with the bytes from `start` to `end` replaced."""

    file: str  # from the root of the repository
    function: str  # such as Mask.padding; empty at the top of the file
    in_function: bool
    lines: tuple[int, int]  # first and last: of a function, a test that goes through none of them cannot kill it
    line: int
    before: str  # the changed lines in one, without indentation
    after: str
    start: int
    end: int
    replacement: str

    @property
    def key(self) -> str:
        """What it is known by in results: it stays the same when lines move."""
        return f"{self.file} {self.function}: {self.before} → {self.after}"

    def source(self) -> bytes:
        """The whole file after the change."""
        source = (ROOT / self.file).read_bytes()
        return source[: self.start] + self.replacement.encode() + source[self.end :]


class Finder:
    """All mutants of one file, in the order of its lines."""

    def __init__(self, file: str, text: str) -> None:
        self.file, self.source = file, text.encode()
        self.starts = [0, *itertools.accumulate(len(line) for line in self.source.splitlines(keepends=True))]
        self.names: list[str] = []  # of the classes and functions around
        self.messages: list[set[str]] = []  # for each function around, the variables that errors alone read
        self.bound: list[set[str]] = []  # for each function around, the variables that have a value already
        self.lines = self.all_lines = (1, len(self.starts))
        self.seen = Counter[tuple[str, str, str]]()
        self.mutants: dict[tuple[int, int, str], Mutant] = {}
        self.walk(ast.parse(text))

    def place(self, node: Any) -> tuple[int, int]:
        """The first byte of a node, and the one behind its last."""
        first = self.starts[node.lineno - 1] + node.col_offset
        return first, self.starts[node.end_lineno - 1] + node.end_col_offset

    def text(self, node: ast.AST) -> str:
        first, last = self.place(node)
        return self.source[first:last].decode()

    def put(self, start: int, end: int, replacement: str) -> None:
        """One more mutant, unless it is there already."""
        if (start, end, replacement) in self.mutants:
            return
        line = self.source[:start].count(b"\n")
        left = self.starts[line]
        right = self.starts[self.source[:end].count(b"\n") + 1]
        after = self.source[left:start] + replacement.encode() + self.source[end:right]
        before, changed = (" ".join(part.decode().split()) for part in (self.source[left:right], after))
        function = ".".join(self.names)
        self.seen[function, before, changed] += 1
        if self.seen[function, before, changed] > 1:  # the same change of the same words, on another line
            changed += f" (place {self.seen[function, before, changed]})"
        mutant = Mutant(
            self.file,
            function,
            self.lines != self.all_lines,
            self.lines,
            line + 1,
            before,
            changed,
            start,
            end,
            replacement,
        )
        self.mutants[start, end, replacement] = mutant

    def put_between(self, left: ast.AST, right: ast.AST, old: str, new: str) -> None:
        """The operator between two operands, which may stand in parentheses."""
        start, end = self.place(left)[1], self.place(right)[0]
        between = self.source[start:end].decode()
        self.put(start, end, re.sub(re.escape(old).replace(r"\ ", r"\s+"), new, between, count=1))

    def walk(self, node: ast.AST) -> None:
        """The mutants of a node and of all below it."""
        outer = self.lines
        if isinstance(node, ast.FunctionDef):
            self.lines = (node.lineno, node.end_lineno or node.lineno)
        elif isinstance(node, ast.stmt) and self.bound:
            body = getattr(node, "body", None)  # of an `if` the head alone
            last = body[0].lineno - 1 if body else node.end_lineno or node.lineno
            self.lines = (node.lineno, max(node.lineno, last))
        getattr(self, f"see_{type(node).__name__.lower()}", self.see_others)(node)
        self.lines = outer

    def see_others(self, node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            self.walk(child)

    # what is left as it is

    def nothing(self, node: ast.AST) -> None: ...

    see_joinedstr = see_assert = see_import = see_importfrom = nothing

    def see_annassign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.walk(node.value)

    def see_classdef(self, node: ast.ClassDef) -> None:
        self.names.append(node.name)
        for statement in node.body:
            self.walk(statement)
        self.names.pop()

    def see_functiondef(self, node: ast.FunctionDef) -> None:
        for default in [*node.args.defaults, *node.args.kw_defaults]:
            if default is not None:
                self.names.append(node.name)
                self.walk(default)
                self.names.pop()
        read: dict[bool, set[str]] = {True: set(), False: set()}  # by errors, by others
        in_errors = {id(n) for one in ast.walk(node) if isinstance(one, ast.Raise) for n in ast.walk(one)}
        for one in ast.walk(node):
            if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load):
                read[id(one) in in_errors].add(one.id)
        self.names.append(node.name)
        self.messages.append(read[True] - read[False])
        self.bound.append({argument.arg for argument in ast.walk(node.args) if isinstance(argument, ast.arg)})
        for statement in node.body:
            self.walk(statement)
        for stack in (self.names, self.messages, self.bound):
            stack.pop()

    # statements

    def delete(self, node: ast.stmt) -> None:
        if self.bound:
            self.put(*self.place(node), "pass")

    def see_expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # a docstring, or `...`
            self.delete(node)
            self.walk(node.value)

    def see_raise(self, node: ast.Raise) -> None:
        self.delete(node)

    def see_augassign(self, node: ast.AugAssign) -> None:
        self.delete(node)
        old, new = OPERATORS[type(node.op)]
        self.put_between(node.target, node.value, old, new)
        self.walk(node.value)

    def see_assign(self, node: ast.Assign) -> None:
        names = {one.id for target in node.targets for one in ast.walk(target)
                 if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}  # fmt: skip
        if self.bound:
            if names and names <= self.messages[-1]:
                return
            if names <= self.bound[-1]:  # else the next line fails for want of a name, which tells nothing
                self.delete(node)
            self.bound[-1] |= names
        self.walk(node.value)

    def see_return(self, node: ast.Return) -> None:
        if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
            self.put(*self.place(node.value), "None")
            self.walk(node.value)

    def negate(self, test: ast.expr) -> None:
        swapped = isinstance(test, ast.Compare) and len(test.ops) == 1  # the negation is one of the swaps
        if not swapped and not (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)):
            self.put(*self.place(test), f"not ({self.text(test)})")

    def see_if(self, node: ast.If) -> None:
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return
        self.negate(node.test)
        self.see_others(node)

    def see_while(self, node: ast.While) -> None:
        self.negate(node.test)
        self.see_others(node)

    def see_ifexp(self, node: ast.IfExp) -> None:
        self.negate(node.test)
        self.see_others(node)

    def see_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self.negate(test)
        self.see_others(node)

    # expressions

    def see_compare(self, node: ast.Compare) -> None:
        for left, operator, right in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
            old, others = COMPARED[type(operator)]
            for new in others:
                self.put_between(left, right, old, new)
        self.see_others(node)

    def see_binop(self, node: ast.BinOp) -> None:
        is_type = isinstance(node.op, ast.BitOr) and not self.bound  # such as int | None
        if type(node.op) in OPERATORS and not is_type:
            self.put_between(node.left, node.right, *OPERATORS[type(node.op)])
        self.see_others(node)

    def see_boolop(self, node: ast.BoolOp) -> None:
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        pieces = [self.text(node.values[0])]
        for left, right in itertools.pairwise(node.values):
            between = self.source[self.place(left)[1] : self.place(right)[0]].decode()
            pieces += [re.sub(rf"\b{old}\b", new, between, count=1), self.text(right)]
        start, end = self.place(node.values[0])[0], self.place(node.values[-1])[1]
        self.put(start, end, "".join(pieces))
        self.see_others(node)

    def see_unaryop(self, node: ast.UnaryOp) -> None:
        start, _ = self.place(node)
        inner, _ = self.place(node.operand)
        self.put(start, inner, re.sub(r"^(not\b|-|~|\+)\s*", "", self.source[start:inner].decode()))
        if isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            self.put(*self.place(node), repr(1 - node.operand.value))  # type: ignore[operator]
        else:
            self.walk(node.operand)

    def see_constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool):
            self.put(*self.place(node), repr(not value))
        elif isinstance(value, int | float):
            self.put(*self.place(node), repr(value - 1 if value == 1 else value + 1))

    def see_call(self, node: ast.Call) -> None:
        for keyword in node.keywords:
            if keyword.arg is not None and keyword.arg not in MESSAGES:
                start, end = self.place(keyword)
                before, behind = self.source[:start].rstrip(), self.source[end:]
                if before.endswith(b","):
                    self.put(len(before) - 1, end, "")
                else:
                    self.put(start, end + len(behind) - len(behind.lstrip(b",")), "")
                self.walk(keyword.value)
        name = getattr(node.func, "id", None) or getattr(node.func, "attr", "")
        if name in NAMES:
            end = self.place(node.func)[1]
            self.put(end - len(name), end, NAMES[name])
        if name == "isinstance":
            return
        for part in [node.func, *node.args]:
            self.walk(part)

    def see_slice(self, node: ast.Slice) -> None:
        for bound in (node.lower, node.upper):
            if bound is not None and not isinstance(bound, ast.Constant | ast.UnaryOp):  # numbers are changed anyway
                self.put(*self.place(bound), f"({self.text(bound)}) + 1")
        self.see_others(node)


def find_mutants() -> list[Mutant]:
    """All mutants of all files."""
    files = sorted(path for pattern in MUTATED for path in ROOT.glob(pattern))
    return [one for path in files for one in Finder(str(path.relative_to(ROOT)), path.read_text()).mutants.values()]


def equivalent_mutants(pool: Sequence[Mutant]) -> dict[str, str]:
    """The reasons by key. An entry that is no mutant of today's code is an error."""
    entries = tomllib.loads(EQUIVALENT.read_text()).get("mutant", [])
    reasons = {f"{e['file']} {e['function']}: {e['before']} → {e['after']}": str(e["reason"]) for e in entries}
    if stale := sorted(set(reasons) - {mutant.key for mutant in pool}):
        raise SystemExit(f"{EQUIVALENT.name} lists what is not a mutant any more:\n" + "\n".join(stale))
    return reasons
