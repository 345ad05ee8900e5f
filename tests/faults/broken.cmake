# faults_broken_actor(ACTOR GUARD [STATEMENTS] [SOURCE file]): the program ACTOR_GUARD, of the objects of ACTOR, on the library
# with that guard broken by this folder's break.awk: in its statements, in a file of src/, or in both.
function(faults_broken_actor actor guard)
  cmake_parse_arguments(PARSE_ARGV 2 with "STATEMENTS" "SOURCE" "")
  set(target ${actor}_${guard})
  set(broken ${CMAKE_CURRENT_BINARY_DIR}/${guard})
  set(break ${AWK} -v guard=${guard} -f ${CMAKE_CURRENT_SOURCE_DIR}/break.awk)
  set(sources "")
  set(replaced ${with_SOURCE})
  file(MAKE_DIRECTORY ${broken})
  if(with_STATEMENTS)
    list(APPEND replaced stmt/statements)
    list(APPEND sources ${broken}/statements.c)
    add_custom_command(OUTPUT ${broken}/statements.c
      COMMAND ${break} ${ROWLOCK_SQL} > ${broken}/all.sql
      COMMAND ${ROWLOCK_AWK} -v out=source -f ${CMAKE_SOURCE_DIR}/cmake/embed.awk ${broken}/all.sql > ${broken}/statements.c
      DEPENDS ${ROWLOCK_SQL} break.awk ${CMAKE_SOURCE_DIR}/cmake/embed.awk ${CMAKE_SOURCE_DIR}/cmake/common.awk
      COMMENT "Breaking a guard: ${guard}" VERBATIM)
    set_source_files_properties(${broken}/statements.c PROPERTIES COMPILE_OPTIONS -Wno-overlength-strings)
  endif()
  if(with_SOURCE)
    list(APPEND sources ${broken}/source.c)
    add_custom_command(OUTPUT ${broken}/source.c
      COMMAND ${break} -v part=source ${CMAKE_SOURCE_DIR}/${with_SOURCE} > ${broken}/source.c
      DEPENDS ${CMAKE_SOURCE_DIR}/${with_SOURCE} break.awk
      COMMENT "Breaking a guard: ${guard} in ${with_SOURCE}" VERBATIM)
  endif()
  list(JOIN replaced "|" replaced)
  add_executable(${target} $<TARGET_OBJECTS:${actor}_objects> ${sources}
    $<FILTER:$<TARGET_OBJECTS:rowlock_objects>,EXCLUDE,${replaced}>)
  target_include_directories(${target} PRIVATE
    ${CMAKE_SOURCE_DIR}/tests ${CMAKE_SOURCE_DIR}/include ${CMAKE_SOURCE_DIR}/src ${GENERATED})
  target_link_libraries(${target} PRIVATE rowlock_build PkgConfig::MARIADB PkgConfig::UUID Threads::Threads)
endfunction()
