# Flags that every target of ours gets, by linking tidewheel_flags.
add_library(tidewheel_flags INTERFACE)
target_compile_options(tidewheel_flags INTERFACE
  -Wall -Wextra -Werror -Wshadow -Wnon-virtual-dtor -Wno-interference-size
  -fno-omit-frame-pointer)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # Deprecation: libstdc++ 12's own headers set it off under clang (stable_partition, stable_sort); g++ sees
  # the same files with it on.
  target_compile_options(tidewheel_flags INTERFACE
    -Wno-unknown-warning-option -Wno-deprecated-declarations -Wthread-safety -Wthread-safety-beta)
endif()
if(TIDEWHEEL_SIM)
  target_compile_definitions(tidewheel_flags INTERFACE TW_SIM=1)
endif()
if(TIDEWHEEL_DASSERT)
  target_compile_definitions(tidewheel_flags INTERFACE TW_DASSERT_ON=1)
endif()
if(TIDEWHEEL_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 warns falsely inside libstdc++ (regex, function) once sanitizers have taken its flow apart.
  target_compile_options(tidewheel_flags INTERFACE -Wno-maybe-uninitialized)
endif()
if(TIDEWHEEL_SANITIZE STREQUAL "address")
  target_compile_options(tidewheel_flags INTERFACE -fsanitize=address)
  target_link_options(tidewheel_flags INTERFACE -fsanitize=address,undefined)
  # ubsan on the library only: on gtest files it costs 15 s each.
  add_library(tidewheel_library_flags INTERFACE)
  target_compile_options(tidewheel_library_flags INTERFACE
    -fsanitize=undefined -fno-sanitize-recover=undefined)
elseif(TIDEWHEEL_SANITIZE STREQUAL "thread")
  target_compile_options(tidewheel_flags INTERFACE -fsanitize=thread)
  target_link_options(tidewheel_flags INTERFACE -fsanitize=thread)
  add_library(tidewheel_library_flags INTERFACE)
else()
  add_library(tidewheel_library_flags INTERFACE)
endif()
