# How test programs are built, and how tests are given to CTest.

# Bounds on time find what hangs. They are said for an idle machine, and so many times as long are given, as in
# check.h and harness.py.
set(PATIENCE 4)

# Sanitizers and asserts cost time, so counts of operations are divided by this.
if(HAKMEM_SANITIZE STREQUAL "thread")
    set(DOSE_DIVISOR 20)
elseif(HAKMEM_SANITIZE)
    set(DOSE_DIVISOR 10)
elseif(CMAKE_BUILD_TYPE STREQUAL "Debug")
    set(DOSE_DIVISOR 3)
else()
    set(DOSE_DIVISOR 1)
endif()

# The label of the short dose of tests in which asserts have nothing to find: what they try does not
# depend on the build, or is not the engine. The debug build has them in its long dose.
set(RELEASE_LABEL short)
if(CMAKE_BUILD_TYPE STREQUAL "Debug" AND NOT HAKMEM_SANITIZE)
    set(RELEASE_LABEL long)
endif()

# The label of the short dose of tests in one thread: ThreadSanitizer finds nothing there.
set(ONE_THREAD_LABEL short)
if(HAKMEM_SANITIZE STREQUAL "thread")
    set(ONE_THREAD_LABEL long)
endif()

# The label of the short dose of tests that repeat, in another setting, what their group has tried
# already: neither asserts nor a sanitizer find more there.
set(REPEATED_LABEL short)
if(CMAKE_BUILD_TYPE STREQUAL "Debug") # sanitizers, too
    set(REPEATED_LABEL long)
endif()

# How test programs are optimised. A group whose programs do little sets this to -O0: they are compiled for
# longer than they run.
set(TEST_OPTIMISATION -O2)

# What every test program shares: warnings, C11, no built-in malloc (else calls are optimised away).
function(hak_test_target target)
    set_target_properties(${target} PROPERTIES
        C_STANDARD 11 C_STANDARD_REQUIRED ON C_EXTENSIONS ON
        CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON
        POSITION_INDEPENDENT_CODE ON)
    target_compile_options(${target} PRIVATE ${TEST_OPTIMISATION} ${HAKMEM_DEBUG_INFO} -fno-builtin)
    target_link_libraries(${target} PRIVATE hakmem_warnings)
endfunction()

# Helpers, once for each meaning of API(name).
foreach(form preload linked prefixed)
    string(TOUPPER ${form} macro)
    add_library(test_support_${form} STATIC
        ${CMAKE_CURRENT_LIST_DIR}/check.c
        ${CMAKE_CURRENT_LIST_DIR}/proc.c
        ${CMAKE_CURRENT_LIST_DIR}/child.c
        ${CMAKE_CURRENT_LIST_DIR}/cpu.c
        ${CMAKE_CURRENT_LIST_DIR}/alloc_names.c)
    hak_test_target(test_support_${form})
    target_compile_definitions(test_support_${form} PUBLIC TEST_${macro})
    target_include_directories(test_support_${form} PUBLIC
        ${CMAKE_CURRENT_LIST_DIR} ${PROJECT_SOURCE_DIR}/include)
    target_link_libraries(test_support_${form} PUBLIC Threads::Threads ${CMAKE_DL_LIBS})
endforeach()

# hak_test_program(target FORM source...)
#
# FORM says where the allocator comes from:
#   preload   LD_PRELOAD, or dlopen; nothing of HAKMEM is linked
#   shared    linked with libhakmem.so
#   static    linked with libhakmem.a
#   prefixed  the hakmem_* twins: of libhakmem.so, or of libhakmem.a in a sanitizer build
function(hak_test_program target form)
    add_executable(${target} ${ARGN})
    hak_test_target(${target})
    if(form STREQUAL "preload")
        target_link_libraries(${target} PRIVATE test_support_preload)
    elseif(form STREQUAL "prefixed")
        set(library hakmem_shared)
        if(HAKMEM_SANITIZE)
            set(library hakmem_static)
        endif()
        target_link_libraries(${target} PRIVATE test_support_prefixed ${library})
    else()
        target_link_libraries(${target} PRIVATE test_support_linked)
        # A C++ program may name no symbol of the library itself, so --no-as-needed.
        target_link_options(${target} PRIVATE -Wl,--no-as-needed)
        target_link_libraries(${target} PRIVATE hakmem_${form})
        # The test looks malloc up by name, also when it is part of the program.
        set_target_properties(${target} PROPERTIES ENABLE_EXPORTS ON)
    endif()
endfunction()

# Ends the test after so many seconds, times PATIENCE. A test that the machine gives no right to what it needs ends
# with 77.
function(hak_bound name seconds)
    math(EXPR most "${seconds} * ${PATIENCE}")
    set_tests_properties(${name} PROPERTIES TIMEOUT ${most} SKIP_RETURN_CODE 77)
endfunction()

function(hak_add_one name label seconds)
    cmake_parse_arguments(PARSE_ARGV 3 one "PRELOAD;SERIAL" "" "COMMAND")
    add_test(NAME ${name} COMMAND ${one_COMMAND})
    hak_bound(${name} ${seconds})
    set_tests_properties(${name} PROPERTIES LABELS "${label}")
    # CTest begins with what may take longest, also before it has measured anything: so no CPU waits for
    # the last test.
    if(seconds GREATER 180)
        set_tests_properties(${name} PROPERTIES COST ${seconds})
    endif()
    if(one_PRELOAD)
        set_tests_properties(${name} PROPERTIES
            ENVIRONMENT "LD_PRELOAD=$<TARGET_FILE:hakmem_shared>")
    endif()
    if(one_SERIAL)
        set_tests_properties(${name} PROPERTIES RUN_SERIAL ON)
    endif()
endfunction()

# hak_test(name [PRELOAD] [SERIAL] [SECONDS n] [LONG_SECONDS n] [LABEL label]
#          COMMAND word... [SHORT word...] [LONG word...])
#
# SHORT and LONG are the arguments that make the doses; with LONG there is a second test, name.long.
# LABEL is the short dose's, if it is not "short". PRELOAD runs it on HAKMEM; SERIAL keeps other tests away while it runs.
function(hak_test name)
    cmake_parse_arguments(PARSE_ARGV 1 test "PRELOAD;SERIAL" "SECONDS;LONG_SECONDS;LABEL"
        "COMMAND;SHORT;LONG")
    if(NOT test_SECONDS)
        set(test_SECONDS 180)
    endif()
    if(NOT test_LABEL)
        set(test_LABEL short)
    endif()
    if(NOT test_LONG_SECONDS)
        set(test_LONG_SECONDS 900)
    endif()
    set(flags "")
    foreach(flag PRELOAD SERIAL)
        if(test_${flag})
            list(APPEND flags ${flag})
        endif()
    endforeach()
    hak_add_one(${name} ${test_LABEL} ${test_SECONDS} ${flags} COMMAND ${test_COMMAND} ${test_SHORT})
    if(DEFINED test_LONG)
        hak_add_one(${name}.long long ${test_LONG_SECONDS} ${flags}
            COMMAND ${test_COMMAND} ${test_LONG})
    endif()
endfunction()

# Makes these short doses long ones where LABEL, one of the three above, says so.
function(hak_label label)
    if(label STREQUAL "long")
        set_tests_properties(${ARGN} PROPERTIES LABELS long)
    endif()
endfunction()

# Says which short doses of this folder a sanitizer build has with the same asserts: the debug build gives
# them the label "repeat", which `make test` leaves out and `make check` does not. All are meant but those
# that match a pattern; changed.py --check looks for them in the sanitizer builds.
function(hak_repeats_all_but)
    if(HAKMEM_SANITIZE OR NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
        return()
    endif()
    list(JOIN ARGN "|" patterns)
    get_property(tests DIRECTORY PROPERTY TESTS)
    foreach(test IN LISTS tests)
        get_test_property(${test} LABELS label)
        if(label STREQUAL "short" AND NOT test MATCHES "^(${patterns})$")
            set_tests_properties(${test} PROPERTIES LABELS repeat)
        endif()
    endforeach()
endfunction()

# Runs these tests with warm slabs in all bands.
function(hak_promote_all)
    set_property(TEST ${ARGN} APPEND PROPERTY ENVIRONMENT HAKMEM_TINY_POLICY_PROFILE=tinyplus_all)
endfunction()

# Sets out to a count of operations as this build can bear it.
function(hak_dose out count)
    math(EXPR dose "${count} / ${DOSE_DIVISOR} + 1")
    set(${out} ${dose} PARENT_SCOPE)
endfunction()
