# An overlay port: it builds the clone that it lies in.
get_filename_component(SOURCE_PATH "${CURRENT_PORT_DIR}/../../.." ABSOLUTE)

vcpkg_check_features(OUT_FEATURE_OPTIONS features FEATURES tools HAKMEM_BUILD_TOOLS)

# Both forms of the library are installed whatever the triplet's linkage: hakmem::hakmem is the
# shared one, hakmem::static the archive.
vcpkg_cmake_configure(
    SOURCE_PATH "${SOURCE_PATH}"
    OPTIONS -DHAKMEM_WERROR=OFF "-DHAKMEM_INSTALL_TOOLDIR=tools/${PORT}"
    OPTIONS_RELEASE -DHAKMEM_LTO=ON ${features}
    OPTIONS_DEBUG -DHAKMEM_BUILD_TOOLS=OFF
    MAYBE_UNUSED_VARIABLES HAKMEM_INSTALL_TOOLDIR)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/${PORT})
vcpkg_fixup_pkgconfig()

file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
file(INSTALL "${CURRENT_PORT_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
# vcpkg has the licence as share/hakmem/copyright.
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/share/doc")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
