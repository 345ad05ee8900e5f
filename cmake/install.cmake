# The files that `cmake --install` installs: headers, both libraries, pkg-config file, CMake package, man pages, papers,
# the grants. (src/cli installs the command.)
include(CMakePackageConfigHelpers)

set(ROWLOCK_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/rowlock)

set_target_properties(rowlock_shared PROPERTIES EXPORT_NAME rowlock)
add_library(rowlock::rowlock ALIAS rowlock_shared)
add_library(rowlock::rowlock_static ALIAS rowlock_static)

install(TARGETS rowlock_shared rowlock_static EXPORT rowlock
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/rowlock DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h")

install(EXPORT rowlock NAMESPACE rowlock:: FILE rowlockTargets.cmake DESTINATION ${ROWLOCK_CMAKE_DIR})
configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/rowlockConfig.cmake.in
  ${CMAKE_BINARY_DIR}/rowlockConfig.cmake INSTALL_DESTINATION ${ROWLOCK_CMAKE_DIR}
  NO_SET_AND_CHECK_MACRO)
# Before 1.0 a minor version may break programs that use the last one.
write_basic_package_version_file(${CMAKE_BINARY_DIR}/rowlockConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/rowlockConfig.cmake ${CMAKE_BINARY_DIR}/rowlockConfigVersion.cmake
  DESTINATION ${ROWLOCK_CMAKE_DIR})

# The prefix follows from the file's own place, so that the tree can be moved, or installed elsewhere with `cmake
# --install --prefix`.
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  set(ROWLOCK_PC_PREFIX ${CMAKE_INSTALL_PREFIX})
  set(ROWLOCK_PC_LIBDIR ${CMAKE_INSTALL_LIBDIR})
else()
  file(RELATIVE_PATH up /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
  string(REGEX REPLACE "/$" "" up "${up}")
  set(ROWLOCK_PC_PREFIX "\${pcfiledir}/${up}")
  set(ROWLOCK_PC_LIBDIR "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
endif()
if(IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
  set(ROWLOCK_PC_INCLUDEDIR ${CMAKE_INSTALL_INCLUDEDIR})
else()
  set(ROWLOCK_PC_INCLUDEDIR "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
endif()
configure_file(${CMAKE_SOURCE_DIR}/cmake/rowlock.pc.in ${CMAKE_BINARY_DIR}/rowlock.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/rowlock.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

foreach(section 1 3 5 7)
  file(GLOB pages CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/docs/man/*.${section})
  if(pages)
    install(FILES ${pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
  endif()
endforeach()
# For people: the least rights, the procedures' text, and the tables.
install(FILES ${CMAKE_SOURCE_DIR}/sql/grants.sql ${CMAKE_SOURCE_DIR}/docs/examples/rowlock.rules.yml
  DESTINATION ${CMAKE_INSTALL_DATADIR}/rowlock)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/sql/procedures DESTINATION ${CMAKE_INSTALL_DATADIR}/rowlock
  FILES_MATCHING PATTERN "*.sql")
install(DIRECTORY ${CMAKE_SOURCE_DIR}/migrations DESTINATION ${CMAKE_INSTALL_DATADIR}/rowlock
  FILES_MATCHING PATTERN "*.sql")
# The papers, in the tree's layout so that their links work, and the examples that they name.
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE ${CMAKE_SOURCE_DIR}/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY ${CMAKE_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR} USE_SOURCE_PERMISSIONS)
install(FILES ${CMAKE_SOURCE_DIR}/sql/grants.sql DESTINATION ${CMAKE_INSTALL_DOCDIR}/sql)
