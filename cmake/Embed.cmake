# rgen_embed(TARGET FUNCTION FILES...): compiles the bytes of FILES into TARGET as `std::span<const EmbeddedFile> FUNCTION()`
# (src/base/embedded.h), e.g. rgen_embed(rgen_ir rgen::ir::embedded_ops ${json_files}). Regenerated when a file or the list changes.
function(rgen_embed target function)
  string(REGEX REPLACE ".*::" "" stem ${function})
  set(output ${CMAKE_BINARY_DIR}/generated/${stem}.cpp)
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} "-DFUNCTION=${function}" "-DFILES=${ARGN}" "-DOUTPUT=${output}" -P ${PROJECT_SOURCE_DIR}/cmake/embed_script.cmake
    DEPENDS ${ARGN} ${PROJECT_SOURCE_DIR}/cmake/embed_script.cmake
    COMMENT "Embedding ${stem}"
    VERBATIM)
  target_sources(${target} PRIVATE ${output})
endfunction()
