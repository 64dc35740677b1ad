"""The Conan recipe: conan_recipe.py TREE.

`conan create` of a clean copy of the sources, in a cache of its own: the shared library, the archive,
and the shared library without malloc. The recipe's test package builds and runs the consumers.
"""

import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))

import clean  # noqa: E402
import harness  # noqa: E402

FORMS = [["&:shared=True"], ["&:shared=False"], ["&:shared=True", "&:prefixed_only=True"]]


def main():
    """All forms, one after the other."""
    with tempfile.TemporaryDirectory() as folder:
        tree = clean.sources(folder, sys.argv[1])
        conan = os.path.join(clean.venv(folder, "conan>=2"), "conan")
        cache = {"CONAN_HOME": os.path.join(folder, "cache")}
        harness.must_run([conan, "profile", "detect"], env=cache)
        for form in FORMS:
            words = [word for option in form for word in ("-o", option)]
            harness.must_run([conan, "create", os.path.join(tree, "packaging", "conan"), *words],
                             env=cache, seconds=clean.SECONDS)


if __name__ == "__main__":
    main()
