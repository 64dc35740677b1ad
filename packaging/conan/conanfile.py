"""The Conan recipe. It packages the clone that it lies in: conan create packaging/conan"""

import os
import re

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load, rm, rmdir

ROOT = os.path.join("..", "..")
SOURCES = ["CMakeLists.txt", "LICENSE", "CHANGELOG.md", "src/*", "include/*", "tools/*", "cmake/*",
           "docs/man/*"]


class Hakmem(ConanFile):
    """The library in one form; the shared one comes with the command."""

    name = "hakmem"
    description = "General-purpose memory allocator for Linux, a drop-in malloc replacement"
    license = "MIT"
    topics = ("malloc", "allocator", "memory")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "prefixed_only": [True, False]}
    default_options = {"shared": True, "prefixed_only": False}

    def set_version(self):
        text = load(self, os.path.join(self.recipe_folder, ROOT, "CMakeLists.txt"))
        self.version = re.search(r"project\(hakmem VERSION ([\d.]+)", text).group(1)

    def export_sources(self):
        for pattern in SOURCES:
            copy(self, pattern, os.path.join(self.recipe_folder, ROOT), self.export_sources_folder)

    def configure(self):
        # The library is C, and needs no C++ runtime.
        self.settings.rm_safe("compiler.libcxx")
        self.settings.rm_safe("compiler.cppstd")

    def validate(self):
        if self.settings.os != "Linux":
            raise ConanInvalidConfiguration("HAKMEM runs on Linux only")

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["HAKMEM_LTO"] = self.settings.build_type == "Release"
        toolchain.cache_variables["HAKMEM_WERROR"] = False
        toolchain.cache_variables["HAKMEM_PREFIXED_ONLY"] = bool(self.options.prefixed_only)
        toolchain.cache_variables["HAKMEM_BUILD_TOOLS"] = bool(self.options.shared)
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        libraries = os.path.join(self.package_folder, "lib")
        for pattern in ["*.a", "*.o"] if self.options.shared else ["*.so*"]:
            rm(self, pattern, libraries)
        # Conan makes both of what it knows of the package.
        rmdir(self, os.path.join(libraries, "cmake"))
        rmdir(self, os.path.join(libraries, "pkgconfig"))

    def package_info(self):
        self.cpp_info.libs = ["hakmem"]
        self.cpp_info.system_libs = ["pthread"]
        target = "hakmem::hakmem" if self.options.shared else "hakmem::static"
        self.cpp_info.set_property("cmake_file_name", "hakmem")
        self.cpp_info.set_property("cmake_target_name", target)
        self.cpp_info.set_property("pkg_config_name", "hakmem")
