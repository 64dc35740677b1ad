# What Debian asks of a package beyond an installed tree: run by CPack on the staged files of each
# component, before it packs them. Manual pages and changelogs are compressed without a time stamp,
# and archives carry no debug information.
find_program(gzip gzip REQUIRED)
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC) # of SOURCE_DATE_EPOCH, where that is set

file(GLOB stages "${CPACK_TEMPORARY_DIRECTORY}/*")
foreach(stage IN LISTS stages)
    file(GLOB documents "${stage}/usr/share/doc/*")
    foreach(folder IN LISTS documents)
        configure_file("${CPACK_HAKMEM_CHANGELOG}" "${folder}/changelog" COPYONLY)
        file(WRITE "${folder}/changelog.Debian"
             "${CPACK_PACKAGE_NAME} (${CPACK_HAKMEM_VERSION}) unstable; urgency=medium\n\n"
             "  * What changed stands in changelog.gz.\n\n -- ${CPACK_PACKAGE_CONTACT}  ${date}\n")
    endforeach()
    file(GLOB plain "${stage}/usr/share/man/man*/*.[13]" "${stage}/usr/share/doc/*/changelog*")
    foreach(file IN LISTS plain)
        execute_process(COMMAND ${gzip} -9nf "${file}" COMMAND_ERROR_IS_FATAL ANY)
    endforeach()
    file(GLOB_RECURSE objects "${stage}/usr/lib/*.a" "${stage}/usr/lib/*.o")
    foreach(file IN LISTS objects)
        execute_process(COMMAND ${CPACK_HAKMEM_STRIP} --strip-debug -D "${file}"
                        COMMAND_ERROR_IS_FATAL ANY)
    endforeach()
endforeach()
