# `find_package(rgen)` and pkg-config for the installed library.
include(CMakePackageConfigHelpers)

install(TARGETS rgen EXPORT rgen-targets)
install(DIRECTORY include/rgen DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/rgen)
install(EXPORT rgen-targets NAMESPACE rgen:: DESTINATION ${package_dir})
configure_package_config_file(cmake/rgen-config.cmake.in rgen-config.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(rgen-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/rgen-config.cmake ${PROJECT_BINARY_DIR}/rgen-config-version.cmake DESTINATION ${package_dir})

# What a static librgen.a needs beside it; pkg-config shows it with --static, and always if that is all there is.
set(RGEN_PC_LIBS_PRIVATE "-lfmt -lstdc++ -lpthread -ldl")
if(HWLOC_FOUND)
  string(PREPEND RGEN_PC_LIBS_PRIVATE "-lhwloc ")
endif()
set(RGEN_PC_LIBS "-lrgen")
if(NOT BUILD_SHARED_LIBS)
  string(APPEND RGEN_PC_LIBS " ${RGEN_PC_LIBS_PRIVATE}")
endif()
file(RELATIVE_PATH RGEN_PC_TO_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" RGEN_PC_TO_PREFIX "${RGEN_PC_TO_PREFIX}")
configure_file(cmake/rgen.pc.in rgen.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/rgen.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
