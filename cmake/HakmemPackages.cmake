# Debian packages by CPack, from the components of HakmemInstall.cmake: libhakmem1 (runtime),
# libhakmem-dev (dev) and hakmem (tools). `make deb` builds them with the folders that Debian uses;
# `cpack -G TGZ` makes archives of the same components.
set(HAKMEM_MAINTAINER "HAKMEM maintainers <maintainers@hakmem.invalid>" CACHE STRING
    "Maintainer field of the Debian packages")

set(runtime_package "libhakmem${PROJECT_VERSION_MAJOR}")
set(packages runtime ${runtime_package} dev libhakmem-dev)
if(HAKMEM_BUILD_TOOLS)
    list(APPEND packages tools hakmem)
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME hakmem)
set(CPACK_PACKAGE_CONTACT "${HAKMEM_MAINTAINER}")
set(CPACK_PACKAGE_DIRECTORY "${PROJECT_BINARY_DIR}/packages")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_PRE_BUILD_SCRIPTS "${PROJECT_SOURCE_DIR}/cmake/HakmemDebian.cmake")
set(CPACK_HAKMEM_CHANGELOG "${PROJECT_SOURCE_DIR}/CHANGELOG.md")
set(CPACK_HAKMEM_STRIP "${CMAKE_STRIP}")
set(CPACK_HAKMEM_VERSION "${PROJECT_VERSION}-1")

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON) # its scripts call ldconfig
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
set(same_version "${runtime_package} (= ${PROJECT_VERSION}-1)")

set(CPACK_COMPONENTS_ALL "")
while(packages)
    list(POP_FRONT packages component package)
    list(APPEND CPACK_COMPONENTS_ALL ${component})
    string(TOUPPER ${component} key)
    set(CPACK_DEBIAN_${key}_PACKAGE_NAME ${package})
    # A package has its own copy of the licence; a plain install has the one of HakmemInstall.cmake.
    install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" RENAME copyright
            DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/${package}" COMPONENT ${component}
            EXCLUDE_FROM_ALL)
endwhile()

set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION
    "This package has the library, which programs load by LD_PRELOAD or are linked with.")
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "${same_version}")
set(CPACK_COMPONENT_DEV_DESCRIPTION
    "This package has headers, static library, single object, pkg-config file and CMake package.")
set(CPACK_DEBIAN_TOOLS_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_TOOLS_PACKAGE_DEPENDS "${same_version}")
# `hakmem prof` and `explain CORE` need python3 alone; compare and tune, the others, too.
set(CPACK_DEBIAN_TOOLS_PACKAGE_RECOMMENDS python3)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SUGGESTS
    "python3-rich, python3-psutil, python3-numpy, python3-scipy, python3-matplotlib, python3-jinja2, gdb")
set(CPACK_COMPONENT_TOOLS_DESCRIPTION
    "This package has the command that starts programs on it and shows what it holds.")
include(CPack)
