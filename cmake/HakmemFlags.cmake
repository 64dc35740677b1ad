# Compiler and linker flags, as interface targets that the other folders link to:
#
#   hakmem_warnings  warnings; for every program and library of the project
#   hakmem_config    HAKMEM_* definitions and include folders; for the engine and white-box tests
#   hakmem_codegen   how the engine itself is compiled
include(CheckCCompilerFlag)
include(CheckLinkerFlag)

# Appends those of the flags to the list named by out that the C compiler accepts without a warning:
# clang only warns of another machine's flags.
function(hakmem_supported_flags out)
    set(CMAKE_REQUIRED_FLAGS -Werror)
    foreach(flag IN LISTS ARGN)
        string(MAKE_C_IDENTIFIER "HAKMEM_HAS${flag}" known)
        check_c_compiler_flag("${flag}" ${known})
        if(${known})
            list(APPEND ${out} "${flag}")
        endif()
    endforeach()
    set(${out} "${${out}}" PARENT_SCOPE)
endfunction()

# The same for the linker.
function(hakmem_supported_link_flags out)
    foreach(flag IN LISTS ARGN)
        string(MAKE_C_IDENTIFIER "HAKMEM_LINKS${flag}" known)
        check_linker_flag(C "${flag}" ${known})
        if(${known})
            list(APPEND ${out} "${flag}")
        endif()
    endforeach()
    set(${out} "${${out}}" PARENT_SCOPE)
endfunction()

if(HAKMEM_FUZZ AND NOT (HAKMEM_SANITIZE AND CMAKE_C_COMPILER_ID STREQUAL "Clang"))
    message(FATAL_ERROR "HAKMEM_FUZZ needs clang and HAKMEM_SANITIZE; this is ${CMAKE_C_COMPILER_ID}, with "
                        "HAKMEM_SANITIZE=\"${HAKMEM_SANITIZE}\". In a new build folder `make fuzz` chooses clang.")
endif()
if(HAKMEM_SANITIZE)
    # Frame pointers give the sanitizers whole stack traces.
    add_compile_options(-fsanitize=${HAKMEM_SANITIZE} -fno-sanitize-recover=all
                        -fno-omit-frame-pointer)
    add_link_options(-fsanitize=${HAKMEM_SANITIZE})
    if(HAKMEM_FUZZ)
        add_compile_options(-fsanitize=fuzzer-no-link)
    endif()
endif()

add_library(hakmem_warnings INTERFACE)
target_compile_options(hakmem_warnings INTERFACE
    -Wall -Wextra -Wundef -Wshadow
    $<$<COMPILE_LANGUAGE:C>:-Wmissing-prototypes>
    $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes>
    $<$<BOOL:${HAKMEM_WERROR}>:-Werror>)
# gcc warns of each fence of ours that it happens to see outside a system header's macro, by how it splits functions.
# ThreadSanitizer ignores fences; the scenarios of tests/interleave explore them.
set(fences "")
hakmem_supported_flags(fences -Wtsan)
if(fences AND HAKMEM_SANITIZE STREQUAL "thread")
    target_compile_options(hakmem_warnings INTERFACE -Wno-tsan)
endif()


# Every switch is defined, as 0 or 1: the code uses #if, and -Wundef finds a misspelt name.
add_library(hakmem_config INTERFACE)
target_include_directories(hakmem_config INTERFACE
    "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/include")
target_compile_definitions(hakmem_config INTERFACE
    _GNU_SOURCE
    HAKMEM_DEBUG=$<CONFIG:Debug>
    HAKMEM_CHECKS=$<BOOL:${HAKMEM_CHECKS}>
    HAKMEM_PREFIXED_ONLY=$<BOOL:${HAKMEM_PREFIXED_ONLY}>)
target_compile_features(hakmem_config INTERFACE c_std_11)

# The library defines these functions, so the compiler must not reason from what it knows of the
# standard ones (it would, for example, turn calloc's malloc + memset into a call of calloc).
set(no_builtin "")
foreach(name malloc calloc realloc reallocarray free aligned_alloc posix_memalign memalign valloc
             pvalloc free_sized free_aligned_sized malloc_usable_size)
    list(APPEND no_builtin "-fno-builtin-${name}")
endforeach()

# Control-flow protection. A process keeps it only if every library of it says that it can bear it.
#   x86-64: "return" marks the library for shadow stacks, which costs no instruction. Not "full": it is
#   also for indirect branch tracking, takes an instruction (endbr64) of malloc and one of free, and
#   no Linux kernel tracks the branches of programs.
#   AArch64: branch targets and signed return addresses; malloc and free have one hint more each.
set(codegen "")
hakmem_supported_flags(codegen
    -fcf-protection=return
    -mbranch-protection=standard
    -fvisibility=hidden
    -fno-plt
    -fno-semantic-interposition
    -fno-stack-protector
    -fno-math-errno
    -ffunction-sections
    -fdata-sections)

# Valgrind 3.19, Debian's, ends at the DWARF 5 that clang writes, and reads gcc's.
set(HAKMEM_DEBUG_INFO -g)
if(CMAKE_C_COMPILER_ID MATCHES "Clang")
    set(HAKMEM_DEBUG_INFO -gdwarf-4)
endif()
# A sanitizer's report needs functions and lines only; with variables a third more time goes into the build.
if(HAKMEM_SANITIZE)
    list(APPEND HAKMEM_DEBUG_INFO -g1)
endif()

add_library(hakmem_codegen INTERFACE)
target_compile_options(hakmem_codegen INTERFACE
    ${codegen} ${no_builtin}
    -ftls-model=${HAKMEM_TLS_MODEL}
    $<IF:$<CONFIG:Debug>,-O1,-O2>
    ${HAKMEM_DEBUG_INFO})
