# make install: libraries, header, the command, manual pages, shell completion, pkg-config file and
# CMake package. All are relocatable: the installed tree may be moved.
include(CMakePackageConfigHelpers)

# A component is what a package of its own takes: runtime (the library as programs load it), dev (to
# build against it) and tools (the command). cmake/HakmemPackages.cmake makes the packages.
install(TARGETS hakmem_shared EXPORT hakmem
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT runtime NAMELINK_COMPONENT dev)
install(TARGETS hakmem_static EXPORT hakmem
    ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT dev)
install(FILES "${HAKMEM_OBJECT}" DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT dev)
install(FILES "${PROJECT_SOURCE_DIR}/include/hakmem.h" "${PROJECT_SOURCE_DIR}/include/hakmem.hpp"
              "${PROJECT_SOURCE_DIR}/include/hakmem_new.hpp"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT dev)
install(FILES "${PROJECT_SOURCE_DIR}/docs/man/hakmem.3"
        DESTINATION "${CMAKE_INSTALL_MANDIR}/man3" COMPONENT dev)
if(HAKMEM_BUILD_TOOLS)
    set(tool_dir "${PROJECT_SOURCE_DIR}/tools/hakmem")
    install(TARGETS hakmem_command RUNTIME DESTINATION "${HAKMEM_INSTALL_TOOLDIR}" COMPONENT tools)
    if(TARGET hakmem_replay)
        install(TARGETS hakmem_record hakmem_replay
                RUNTIME DESTINATION "${CMAKE_INSTALL_LIBDIR}/hakmem" COMPONENT tools OPTIONAL
                LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/hakmem" COMPONENT tools OPTIONAL)
    endif()
    if(TARGET hakmem_copies)
        install(TARGETS hakmem_copies
                LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/hakmem" COMPONENT tools)
    endif()
    install(FILES "${PROJECT_SOURCE_DIR}/docs/man/hakmem.1"
            DESTINATION "${CMAKE_INSTALL_MANDIR}/man1" COMPONENT tools)
    install(FILES "${tool_dir}/completion.bash" RENAME hakmem
            DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions" COMPONENT tools)
    install(FILES "${tool_dir}/completion.zsh" RENAME _hakmem
            DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/site-functions" COMPONENT tools)
    # gdb loads the reader by itself where it looks for such files, which is below /usr.
    install(FILES "${PROJECT_BINARY_DIR}/libhakmem.so.${PROJECT_VERSION}-gdb.py" RENAME hakmem_gdb.py
            DESTINATION "${CMAKE_INSTALL_LIBDIR}/hakmem" COMPONENT tools)
    if(CMAKE_INSTALL_PREFIX STREQUAL "/usr")
        install(FILES "${PROJECT_BINARY_DIR}/libhakmem.so.${PROJECT_VERSION}-gdb.py"
                DESTINATION "${CMAKE_INSTALL_DATADIR}/gdb/auto-load${CMAKE_INSTALL_FULL_LIBDIR}" COMPONENT tools)
    endif()
    install(FILES "${PROJECT_SOURCE_DIR}/tools/grafana/hakmem-dashboard.json"
            DESTINATION "${CMAKE_INSTALL_DATADIR}/hakmem/grafana" COMPONENT tools)
endif()
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}"
        COMPONENT licence)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/hakmem")
install(EXPORT hakmem NAMESPACE hakmem:: FILE hakmemTargets.cmake DESTINATION "${package_dir}"
        COMPONENT dev)
configure_package_config_file(
    "${PROJECT_SOURCE_DIR}/cmake/hakmemConfig.cmake.in" "${PROJECT_BINARY_DIR}/hakmemConfig.cmake"
    INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/hakmemConfigVersion.cmake"
    COMPATIBILITY SameMajorVersion)
install(FILES "${PROJECT_BINARY_DIR}/hakmemConfig.cmake"
              "${PROJECT_BINARY_DIR}/hakmemConfigVersion.cmake"
        DESTINATION "${package_dir}" COMPONENT dev)

# The pkg-config file finds the prefix from its own place, unless a folder was given as absolute.
set(pkgconfig_dir "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}" OR IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
    set(HAKMEM_PC_PREFIX "${CMAKE_INSTALL_PREFIX}")
    set(HAKMEM_PC_LIBDIR "${CMAKE_INSTALL_FULL_LIBDIR}")
    set(HAKMEM_PC_INCLUDEDIR "${CMAKE_INSTALL_FULL_INCLUDEDIR}")
else()
    file(RELATIVE_PATH up "/${pkgconfig_dir}" "/")
    string(REGEX REPLACE "/$" "" up "${up}")
    set(HAKMEM_PC_PREFIX "\${pcfiledir}/${up}")
    set(HAKMEM_PC_LIBDIR "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
    set(HAKMEM_PC_INCLUDEDIR "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
endif()
configure_file("${PROJECT_SOURCE_DIR}/cmake/hakmem.pc.in" "${PROJECT_BINARY_DIR}/hakmem.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/hakmem.pc" DESTINATION "${pkgconfig_dir}" COMPONENT dev)
