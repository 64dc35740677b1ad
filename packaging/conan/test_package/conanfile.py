"""Builds the consumers of tests/packages against the package, and runs them."""

import os

from conan import ConanFile
from conan.errors import ConanException
from conan.tools.build import can_run
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout


class TestPackage(ConanFile):
    settings = "os", "arch", "compiler", "build_type"
    generators = ("CMakeDeps",)

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        shared = self.dependencies["hakmem"].options.shared
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["FORM"] = "hakmem" if shared else "static"
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def test(self):
        if not can_run(self):
            return
        has_malloc = not self.dependencies["hakmem"].options.prefixed_only
        expected = "served by " if has_malloc else "not served by "
        for language in ("c", "cpp"):
            output = os.path.join(self.build_folder, f"{language}.out")
            self.run(os.path.join(self.cpp.build.bindir, f"consumer_{language}") + f" >{output}",
                     env="conanrun")
            with open(output, encoding="utf-8") as file:
                text = file.read()
            if not text.startswith(expected):
                raise ConanException(f"the consumer in {language} printed: {text}")
