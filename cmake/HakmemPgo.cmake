# Profile-guided optimisation of libhakmem.so, in one build folder and two steps that `make pgo`
# takes: HAKMEM_PGO=generate, train, then HAKMEM_PGO=use.
#
# Training counts how often each branch is taken; it does not see all that programs do, so code it
# never reached is optimised as usual (-fprofile-partial-training), not for size.
set(HAKMEM_PGO "" CACHE STRING "Profile-guided build: empty, generate or use")
set_property(CACHE HAKMEM_PGO PROPERTY STRINGS "" generate use)
set(HAKMEM_PGO_DIR "${PROJECT_BINARY_DIR}/profile" CACHE PATH "Where the profiles lie")

# Turns clang's raw profiles into the one file that it reads.
function(hakmem_pgo_merge out)
    string(REGEX MATCH "^[0-9]+" major "${CMAKE_C_COMPILER_VERSION}")
    find_program(HAKMEM_PROFDATA NAMES llvm-profdata-${major} llvm-profdata)
    file(GLOB raw "${HAKMEM_PGO_DIR}/*.profraw")
    if(NOT HAKMEM_PROFDATA OR NOT raw)
        message(FATAL_ERROR "HAKMEM_PGO=use needs llvm-profdata-${major} and a training run "
                            "(profiles in ${HAKMEM_PGO_DIR}); 'make pgo' takes all steps")
    endif()
    execute_process(COMMAND "${HAKMEM_PROFDATA}" merge -o "${out}" ${raw} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# Compile options into the list named by compile, link options into the one named by link.
function(hakmem_pgo_flags compile link)
    set(flags "")
    set(link_flags "")
    if(HAKMEM_PGO STREQUAL "generate")
        set(flags -fprofile-generate=${HAKMEM_PGO_DIR} -fprofile-update=atomic)
        set(link_flags -fprofile-generate=${HAKMEM_PGO_DIR})
    elseif(HAKMEM_PGO STREQUAL "use" AND CMAKE_C_COMPILER_ID MATCHES "Clang")
        set(file "${HAKMEM_PGO_DIR}/hakmem.profdata")
        hakmem_pgo_merge("${file}")
        set(flags -fprofile-use=${file} -Wno-profile-instr-unprofiled -Wno-profile-instr-out-of-date)
        set(link_flags -fprofile-use=${file})
    elseif(HAKMEM_PGO STREQUAL "use")
        file(GLOB counted "${HAKMEM_PGO_DIR}/*.gcda")
        if(NOT counted)
            message(FATAL_ERROR "HAKMEM_PGO=use needs a training run (profiles in "
                                "${HAKMEM_PGO_DIR}); 'make pgo' takes all steps")
        endif()
        # Counters of one statement are read one after the other while other threads go on; a few
        # calls of difference are no error.
        set(flags -fprofile-use=${HAKMEM_PGO_DIR} -fprofile-correction -fprofile-partial-training
                  -Wno-missing-profile)
        set(link_flags ${flags})
    elseif(NOT HAKMEM_PGO STREQUAL "")
        message(FATAL_ERROR "HAKMEM_PGO is empty, generate or use, not '${HAKMEM_PGO}'")
    endif()
    set(${compile} "${flags}" PARENT_SCOPE)
    set(${link} "${link_flags}" PARENT_SCOPE)
endfunction()
