# Stands in for vcpkg, which no registry has: what the port calls, as vcpkg documents it, for the triplet
# of this machine. Called with PORT_DIR, FEATURES (a list) and WORK, an empty folder.
cmake_minimum_required(VERSION 3.21)
set(PORT hakmem)
set(CURRENT_PORT_DIR "${PORT_DIR}")
set(CURRENT_PACKAGES_DIR "${WORK}/packages")

# (OUT_FEATURE_OPTIONS name FEATURES feature OPTION ...): name becomes -DOPTION=ON or OFF for each.
function(vcpkg_check_features)
    cmake_parse_arguments(PARSE_ARGV 0 given "" OUT_FEATURE_OPTIONS FEATURES)
    while(given_FEATURES)
        list(POP_FRONT given_FEATURES feature option)
        if(feature IN_LIST FEATURES)
            list(APPEND options -D${option}=ON)
        else()
            list(APPEND options -D${option}=OFF)
        endif()
    endwhile()
    set(${given_OUT_FEATURE_OPTIONS} ${options} PARENT_SCOPE)
endfunction()

function(run)
    execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

function(vcpkg_cmake_configure)
    cmake_parse_arguments(PARSE_ARGV 0 given "" SOURCE_PATH
        "OPTIONS;OPTIONS_RELEASE;OPTIONS_DEBUG;MAYBE_UNUSED_VARIABLES")
    run(${CMAKE_COMMAND} -S ${given_SOURCE_PATH} -B ${WORK}/rel -DCMAKE_BUILD_TYPE=Release
        -DCMAKE_INSTALL_PREFIX=${CURRENT_PACKAGES_DIR} -DBUILD_SHARED_LIBS=OFF
        ${given_OPTIONS} ${given_OPTIONS_RELEASE})
    run(${CMAKE_COMMAND} -S ${given_SOURCE_PATH} -B ${WORK}/dbg -DCMAKE_BUILD_TYPE=Debug
        -DCMAKE_INSTALL_PREFIX=${CURRENT_PACKAGES_DIR}/debug -DBUILD_SHARED_LIBS=OFF
        ${given_OPTIONS} ${given_OPTIONS_DEBUG})
endfunction()

function(vcpkg_cmake_install)
    foreach(build rel dbg)
        run(${CMAKE_COMMAND} --build ${WORK}/${build} --target install)
    endforeach()
endfunction()

# The package moves to share/, one folder less below the prefix; that of debug becomes a part of it.
function(vcpkg_cmake_config_fixup)
    cmake_parse_arguments(PARSE_ARGV 0 given "" CONFIG_PATH "")
    set(share "${CURRENT_PACKAGES_DIR}/share/${PORT}")
    file(MAKE_DIRECTORY "${share}")
    file(GLOB files "${CURRENT_PACKAGES_DIR}/${given_CONFIG_PATH}/*.cmake")
    file(COPY ${files} DESTINATION "${share}")
    file(GLOB debug "${CURRENT_PACKAGES_DIR}/debug/${given_CONFIG_PATH}/*-debug.cmake")
    foreach(file IN LISTS debug)
        file(READ "${file}" text)
        string(REPLACE "{_IMPORT_PREFIX}" "{_IMPORT_PREFIX}/debug" text "${text}")
        get_filename_component(name "${file}" NAME)
        file(WRITE "${share}/${name}" "${text}")
    endforeach()
    set(up "get_filename_component(_IMPORT_PREFIX \"\${_IMPORT_PREFIX}\" PATH)\n")
    file(GLOB files "${share}/*.cmake")
    foreach(file IN LISTS files)
        file(READ "${file}" text)
        string(REPLACE "${up}${up}${up}" "${up}${up}" text "${text}")
        string(REPLACE "/../../../" "/../../" text "${text}")
        file(WRITE "${file}" "${text}")
    endforeach()
    file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/lib/cmake" "${CURRENT_PACKAGES_DIR}/debug/lib/cmake")
endfunction()

function(vcpkg_fixup_pkgconfig)
    if(NOT EXISTS "${CURRENT_PACKAGES_DIR}/lib/pkgconfig/${PORT}.pc")
        message(FATAL_ERROR "no ${PORT}.pc in lib/pkgconfig")
    endif()
endfunction()

function(vcpkg_install_copyright)
    cmake_parse_arguments(PARSE_ARGV 0 given "" "" FILE_LIST)
    file(COPY_FILE ${given_FILE_LIST} "${CURRENT_PACKAGES_DIR}/share/${PORT}/copyright")
endfunction()

include("${PORT_DIR}/portfile.cmake")
