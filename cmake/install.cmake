# cmake --install: the floors as a CMake package and as pkg-config files, their headers, the program.
#   find_package(tidewheel)            tidewheel::base, ::timerwheel, ::writeback, ::inode, ::fs
#   pkg-config tidewheel-writeback     tidewheel-base, -timerwheel, -writeback, -inode, -fs
# Components: development (libraries, headers, both kinds of package file), program (bin/tidewheel).
# Included last: every floor has been declared. docs/embedding.md says how they are used.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

get_property(FLOORS GLOBAL PROPERTY TIDEWHEEL_FLOORS)
set(PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/tidewheel)

# ---- tidewheel::fs: whatever floors fs/ has ----
set(FS_FLOORS ${FLOORS})
list(FILTER FS_FLOORS INCLUDE REGEX "^fs_")
if(NOT TARGET tidewheel_fs)
  add_library(tidewheel_fs INTERFACE)
  add_library(tidewheel::fs ALIAS tidewheel_fs)
  set_target_properties(tidewheel_fs PROPERTIES EXPORT_NAME fs)
  foreach(FLOOR ${FS_FLOORS})
    target_link_libraries(tidewheel_fs INTERFACE tidewheel_${FLOOR})
  endforeach()
  list(APPEND FLOORS fs)
  set_property(GLOBAL PROPERTY TIDEWHEEL_LINKS_fs "${FS_FLOORS}")
endif()

# ---- what a program has to be compiled with ----
set(SANITIZER_FLAG)
if(TIDEWHEEL_SANITIZE STREQUAL "address")
  set(SANITIZER_FLAG -fsanitize=address,undefined)
elseif(TIDEWHEEL_SANITIZE STREQUAL "thread")
  set(SANITIZER_FLAG -fsanitize=thread)
endif()
if(SANITIZER_FLAG)
  target_compile_options(tidewheel_base INTERFACE $<INSTALL_INTERFACE:${SANITIZER_FLAG}>)
  target_link_options(tidewheel_base INTERFACE $<INSTALL_INTERFACE:${SANITIZER_FLAG}>)
endif()

# ---- the CMake package ----
set(FLOOR_TARGETS ${FLOORS})
list(TRANSFORM FLOOR_TARGETS PREPEND tidewheel_)
install(TARGETS ${FLOOR_TARGETS} EXPORT tidewheel
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT tidewheel NAMESPACE tidewheel:: FILE tidewheel-targets.cmake
        DESTINATION ${PACKAGE_DIR} COMPONENT development)
configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/tidewheel-config.cmake.in
        ${CMAKE_BINARY_DIR}/tidewheel-config.cmake INSTALL_DESTINATION ${PACKAGE_DIR}
        NO_SET_AND_CHECK_MACRO)
# Before 1.0 a minor version may change what callers see.
write_basic_package_version_file(${CMAKE_BINARY_DIR}/tidewheel-config-version.cmake
        COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/tidewheel-config.cmake ${CMAKE_BINARY_DIR}/tidewheel-config-version.cmake
        DESTINATION ${PACKAGE_DIR} COMPONENT development)

# ---- pkg-config: the prefix is found from where the file lies, so the tree can be moved ----
file(RELATIVE_PATH PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" PC_PREFIX ${PC_PREFIX})
foreach(FLOOR ${FLOORS})
  get_property(LINKS GLOBAL PROPERTY TIDEWHEEL_LINKS_${FLOOR})
  get_property(LIBS GLOBAL PROPERTY TIDEWHEEL_LIBS_${FLOOR})
  string(REPLACE "_" "-" PC_NAME tidewheel-${FLOOR})
  set(PC_REQUIRES)
  foreach(LINK ${LINKS})
    string(REPLACE "_" "-" LINK tidewheel-${LINK})
    string(APPEND PC_REQUIRES " ${LINK} = ${PROJECT_VERSION}")
  endforeach()
  # Static libraries: whatever they need stands in Libs, so that nobody has to say --static.
  set(PC_LIBS)
  get_target_property(KIND tidewheel_${FLOOR} TYPE)
  if(KIND STREQUAL "STATIC_LIBRARY")
    set(PC_LIBS "-L\${libdir} -ltidewheel_${FLOOR}")
  endif()
  foreach(LIB ${LIBS})
    if(LIB STREQUAL "Threads::Threads")
      string(APPEND PC_LIBS " -pthread")
    else()
      tidewheel_library_name(${LIB} LIB_NAME)
      string(APPEND PC_LIBS " -l${LIB_NAME}")
    endif()
  endforeach()
  set(PC_CFLAGS "-I\${includedir}")
  if(FLOOR STREQUAL "base")
    set(PC_CFLAGS "-I\${includedir} -std=c++20 -pthread ${SANITIZER_FLAG}")
    string(APPEND PC_LIBS " ${SANITIZER_FLAG}")
  endif()
  configure_file(${CMAKE_SOURCE_DIR}/cmake/tidewheel.pc.in ${CMAKE_BINARY_DIR}/${PC_NAME}.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/${PC_NAME}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
          COMPONENT development)
endforeach()

# ---- headers ----
configure_file(${CMAKE_SOURCE_DIR}/cmake/install_headers.cmake.in ${CMAKE_BINARY_DIR}/install_headers.cmake
               @ONLY)
install(SCRIPT ${CMAKE_BINARY_DIR}/install_headers.cmake COMPONENT development)

if(TIDEWHEEL_BENCH)
  install(TARGETS tidewheel_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
endif()

# The examples include what they need as an installed program does; in the tree that name leads here.
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/include)
file(CREATE_LINK ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/include/tidewheel SYMBOLIC)
