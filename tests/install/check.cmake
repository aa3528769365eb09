# Installs a build, moves the result, and builds the examples against it with find_package and with pkg-config.
# -DBUILD_DIR, -DSOURCE_DIR, -DWORK_DIR, -DCXX
cmake_minimum_required(VERSION 3.25)

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(REMOVE_RECURSE ${WORK_DIR})
run(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${WORK_DIR}/installed)
file(RENAME ${WORK_DIR}/installed ${WORK_DIR}/moved)
set(prefix ${WORK_DIR}/moved)

if(EXISTS ${prefix}/bin/rgen)
  run(${prefix}/bin/rgen ops)
endif()

run(${CMAKE_COMMAND} -S ${SOURCE_DIR}/tests/install -B ${WORK_DIR}/consumer -G Ninja -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_PREFIX_PATH=${prefix}
    -DEXAMPLES=${SOURCE_DIR}/examples)
run(${CMAKE_COMMAND} --build ${WORK_DIR}/consumer)

find_program(PKG_CONFIG pkg-config)
if(PKG_CONFIG)
  file(GLOB_RECURSE pc ${prefix}/*/rgen.pc)
  cmake_path(GET pc PARENT_PATH pc_dir)
  set(ENV{PKG_CONFIG_PATH} ${pc_dir})
  execute_process(COMMAND ${PKG_CONFIG} --cflags --libs rgen OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(flags UNIX_COMMAND "${flags}")
  file(GLOB sources ${SOURCE_DIR}/examples/*.cpp)
  foreach(source IN LISTS sources)
    cmake_path(GET source STEM name)
    run(${CXX} -std=c++20 ${source} ${flags} -o ${WORK_DIR}/${name})
  endforeach()
endif()
