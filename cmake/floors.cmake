# One target per folder, linked only downward:
#   tidewheel_floor(base LIBS ...)         makes tidewheel_base   (alias tidewheel::base)
#   tidewheel_floor(fs_block LINKS base)   makes tidewheel_fs_block from this folder's *.cc
# LINKS names other floors; LIBS names packages (PRIVATE_LIBS those that no header shows).
# Every floor is installed (cmake/install.cmake).
function(tidewheel_floor NAME)
  cmake_parse_arguments(ARG "" "" "LINKS;LIBS;PRIVATE_LIBS" ${ARGN})
  file(GLOB SOURCES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  set(TARGET tidewheel_${NAME})
  add_library(${TARGET} STATIC ${SOURCES})
  add_library(tidewheel::${NAME} ALIAS ${TARGET})
  set_target_properties(${TARGET} PROPERTIES EXPORT_NAME ${NAME})
  target_compile_features(${TARGET} PUBLIC cxx_std_20)
  target_include_directories(${TARGET} PUBLIC $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}>)
  set(FLOORS ${ARG_LINKS})
  list(TRANSFORM FLOORS PREPEND tidewheel_)
  # What find_library answered is a path of this machine: what is installed names the library instead.
  set(PRIVATE_LIBS)
  foreach(LIB ${ARG_PRIVATE_LIBS})
    if(IS_ABSOLUTE ${LIB})
      tidewheel_library_name(${LIB} LIB_NAME)
      list(APPEND PRIVATE_LIBS $<BUILD_INTERFACE:${LIB}> $<INSTALL_INTERFACE:${LIB_NAME}>)
    else()
      list(APPEND PRIVATE_LIBS ${LIB})
    endif()
  endforeach()
  target_link_libraries(${TARGET} PUBLIC $<BUILD_INTERFACE:tidewheel_flags> ${FLOORS} ${ARG_LIBS}
                                  PRIVATE $<BUILD_INTERFACE:tidewheel_library_flags> ${PRIVATE_LIBS})
  set_property(GLOBAL APPEND PROPERTY TIDEWHEEL_FLOORS ${NAME})
  set_property(GLOBAL PROPERTY TIDEWHEEL_LINKS_${NAME} "${ARG_LINKS}")
  set_property(GLOBAL PROPERTY TIDEWHEEL_LIBS_${NAME} "${ARG_LIBS};${ARG_PRIVATE_LIBS}")
endfunction()

# The name that -l takes: of a path (liburing.so: uring), or of a package's target (fmt::fmt: fmt).
function(tidewheel_library_name LIB OUT)
  if(IS_ABSOLUTE ${LIB})
    get_filename_component(NAME ${LIB} NAME_WE)
    string(REGEX REPLACE "^lib" "" NAME ${NAME})
  else()
    string(REGEX REPLACE "^.*::" "" NAME ${LIB})
  endif()
  set(${OUT} ${NAME} PARENT_SCOPE)
endfunction()
