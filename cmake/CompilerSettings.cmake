# Warnings, sanitizers and ccache for our own targets. CMAKE_COMPILE_WARNING_AS_ERROR (set by the presets) makes warnings errors.
add_compile_options(-Wall -Wextra -Wpedantic -Wshadow)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 warns of an overlap in `"text" + std::string` where there is none (GCC bug 105651).
  add_compile_options(-Wno-restrict)
endif()
if(RGEN_SANITIZE)
  # One report ends the program: a test must not pass over undefined behaviour.
  add_compile_options(-fsanitize=${RGEN_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${RGEN_SANITIZE})
  # GCC sees uninitialised members of the library's regex where the sanitizers' code keeps it from following them.
  add_compile_options($<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
endif()

find_program(CCACHE ccache)
mark_as_advanced(CCACHE)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()
