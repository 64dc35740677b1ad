"""Names of functions as a page shows them: C++ spells out what its templates and parameters are made of."""

import re

# Where < and > are no brackets.
TOKENS = re.compile(r"(operator *(?:<=>|<<=|>>=|->\*|<<|>>|<=|>=|->|<|>)|->)")
LIBRARY = re.compile(r"(std|__gnu_cxx)::|operator new|void\b")  # containers, and what they call
LONGEST_ARGUMENT, LONGEST_LIST = 16, 40  # letters that are still shown


def _without_templates(name) -> str:
    shown, inside, depth = [], "", 0
    for i, token in enumerate(TOKENS.split(name)):
        for letter in [token] if i % 2 else token:  # every other one is a token
            if letter == ">" and depth:
                depth -= 1
                if not depth:
                    shown.append(f"<{inside}>" if len(inside) <= LONGEST_ARGUMENT else "<…>")
                    inside = ""
                    continue
            if depth:
                inside += letter
            elif letter != "<":
                shown.append(letter)
            depth += letter == "<"
    return "".join(shown) if not depth else name


def _without_parameters(name) -> str:
    end, depth = name.rfind(")"), 0
    for at in range(end, -1, -1):
        depth += (name[at] == ")") - (name[at] == "(")
        if not depth:
            return name if at == 0 or end - at <= LONGEST_LIST else f"{name[:at]}(…){name[end + 1:]}"
    return name


def short(name) -> str:
    """Without long arguments of templates and long lists of parameters."""
    return _without_parameters(name if name.startswith("<") else _without_templates(name))


def own(stack) -> tuple:
    """A stack, the outermost call first, up to the innermost that is not of a library of containers."""
    end = len(stack)
    while end and LIBRARY.match(stack[end - 1]):
        end -= 1
    return tuple(stack[:end] or stack)
