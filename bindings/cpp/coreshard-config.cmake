# find_package(coreshard) gives coreshard::coreshard (C and C++20, by the shared library) and coreshard::static. It is
# installed to PREFIX/lib/cmake/coreshard, so the prefix is three folders above.
get_filename_component(_coreshard_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
find_package(Threads REQUIRED)

if(NOT TARGET coreshard::coreshard)
  add_library(coreshard::coreshard SHARED IMPORTED)
  set_target_properties(coreshard::coreshard PROPERTIES
    IMPORTED_LOCATION "${_coreshard_prefix}/lib/libcoreshard.so"
    INTERFACE_INCLUDE_DIRECTORIES "${_coreshard_prefix}/include")
  add_library(coreshard::static STATIC IMPORTED)
  set_target_properties(coreshard::static PROPERTIES
    IMPORTED_LOCATION "${_coreshard_prefix}/lib/libcoreshard.a"
    INTERFACE_INCLUDE_DIRECTORIES "${_coreshard_prefix}/include"
    INTERFACE_LINK_LIBRARIES "Threads::Threads;gcc_s;util;rt;m;${CMAKE_DL_LIBS}")
endif()
unset(_coreshard_prefix)
