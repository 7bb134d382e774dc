"""PTX text to a module of functions and variables (PTX ISA 9.x, chapters 4, 5, 7 and 9; what compilers emit).

The text is hostile: inline assembly of the kernel reaches it unchecked. Everything odd raises ``PtxError``; sizes and
counts are capped.
"""

from __future__ import annotations

from prelaunch.analysis.ptx.body import Body
from prelaunch.analysis.ptx.module import Function, Module, PtxError, Variable
from prelaunch.analysis.ptx.variables import Declarations

__all__ = ["PtxError", "parse"]

MAX_TEXT = 32 << 20


def parse(text: str) -> Module:
    """The module ``text`` spells. Raises ``PtxError``."""
    if len(text) > MAX_TEXT:
        raise PtxError(f"{len(text)} bytes of PTX, more than the limit of {MAX_TEXT}")
    return _Parser(text).module()


class _Parser(Declarations):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.out = Module()

    # --- module scope ---

    def module(self) -> Module:
        while self.kinds[self.at] != "end":
            word = self.next()
            match word:
                case ".version":
                    self.out.version = self.next()
                case ".target":
                    self.out.target = self.next()
                    while self.accept(","):
                        self.next()
                case ".address_size":
                    self.next()
                case ".file":
                    self.file(self.out.files)
                case ".pragma" | ".alias":
                    self.skip_to_semicolon()
                case ".extern" | ".visible" | ".weak" | ".common":
                    self._linkage(word)
                case ".func" | ".entry":
                    self._function(word == ".entry")
                case ".global" | ".const" | ".shared":
                    self._module_variable(word[1:], extern=False)
                case ";":
                    pass
                case _:
                    self.at -= 1
                    raise self.fail("expected a declaration")
        return self.out

    def _linkage(self, word: str) -> None:
        kind = self.next()
        if kind in (".func", ".entry"):
            self._function(kind == ".entry")
        elif kind in (".global", ".const", ".shared"):
            self._module_variable(kind[1:], extern=word == ".extern")
        else:
            self.at -= 1
            raise self.fail("expected a declaration")

    def _module_variable(self, space: str, extern: bool) -> None:
        for variable in self.variables(space):
            variable.extern = extern
            old = self.out.variables.get(variable.name)
            if old is None or (old.extern and not extern):
                self.out.variables[variable.name] = variable
        self.expect(";")

    # --- functions ---

    def _function(self, entry: bool) -> None:
        returns: list[Variable] = []
        while self.kinds[self.at] == "directive":
            self._attribute()
        if self.accept("("):
            returns = self._parameters()
        name = self.name()
        params = self._parameters() if self.accept("(") else []
        function = Function(name, entry, params, returns)
        while self.kinds[self.at] == "directive":
            self._attribute()
        if self.accept(";"):
            self.out.functions.setdefault(name, function)
            return
        self.expect("{")
        function.defined = True
        Body(self, function, self.out.files).read()
        self.out.functions[name] = function

    def _attribute(self) -> None:
        """Performance and attribute directives: numbers and names up to the body."""
        word = self.next()
        if word in (".maxntid", ".reqntid", ".minnctapersm", ".maxnreg", ".maxnctapersm", ".reqnctapercluster",
                    ".maxclusterrank", ".abi_preserve", ".abi_preserve_control", ".local_maxnreg"):  # fmt: skip
            self.integer()
            while self.accept(","):
                self.integer()
        elif word in (".attribute",):
            while not self.accept(")"):
                self.next()
        elif word == ".pragma":
            self.skip_to_semicolon()
        elif word not in (".noreturn", ".explicitcluster", ".blocksareclusters", ".unique"):
            self.at -= 1
            raise self.fail("unknown function directive")

    def _parameters(self) -> list[Variable]:
        found: list[Variable] = []
        while not self.accept(")"):
            word = self.next()
            if word == ",":
                continue
            if word not in (".param", ".reg"):
                self.at -= 1
                raise self.fail("expected a parameter")
            if word == ".reg":
                raise self.fail("register parameters are not modelled")
            found += self.variables("param")
        return found
