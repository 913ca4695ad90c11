# One target per folder, linked only downward:
#   tidewheel_floor(base LIBS ...)         makes tidewheel_base   (alias tidewheel::base)
#   tidewheel_floor(fs_block LINKS base)   makes tidewheel_fs_block from this folder's *.cc
# LINKS names other floors; LIBS names packages (PRIVATE_LIBS those that no header shows).
function(tidewheel_floor NAME)
  cmake_parse_arguments(ARG "" "" "LINKS;LIBS;PRIVATE_LIBS" ${ARGN})
  file(GLOB SOURCES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  set(TARGET tidewheel_${NAME})
  add_library(${TARGET} STATIC ${SOURCES})
  add_library(tidewheel::${NAME} ALIAS ${TARGET})
  target_include_directories(${TARGET} PUBLIC ${CMAKE_SOURCE_DIR})
  set(FLOORS ${ARG_LINKS})
  list(TRANSFORM FLOORS PREPEND tidewheel_)
  target_link_libraries(${TARGET} PUBLIC tidewheel_flags ${FLOORS} ${ARG_LIBS}
                                  PRIVATE tidewheel_library_flags ${ARG_PRIVATE_LIBS})
endfunction()
