# `cmake --install BUILD --component client`: what a program needs that uses the C++ client. The
# static libraries, the public headers, and how to find them: find_package(lockstep) and pkg-config.
# The component `programs` is `lockstep` and, where they are built, `lockstep-server` and
# `lockstep-agent`.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

# In the order of linking; the first is what programs name: lockstep::client.
set(client_targets lockstep_client lockstep_transport lockstep_transport_conversation
    lockstep_transport_memory lockstep_link
  lockstep_wire_rendezvous lockstep_wire_data lockstep_consumer lockstep_dispatch lockstep_plan lockstep_wire_native lockstep_rendezvous lockstep_runtime lockstep_base
  lockstep_asio lockstep_protozero)
# And lockstep::notices, which brings what it needs of these.
set(notices_targets lockstep_client_sources lockstep_preempt lockstep_preempt_machines)
foreach(target IN LISTS client_targets notices_targets)
  string(REGEX REPLACE "^lockstep_" "" exported ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${exported})
endforeach()
set_target_properties(lockstep_client_sources PROPERTIES EXPORT_NAME notices)
add_library(lockstep::client ALIAS lockstep_client)
add_library(lockstep::notices ALIAS lockstep_client_sources)
target_include_directories(lockstep_client PUBLIC $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

install(TARGETS ${client_targets} ${notices_targets} EXPORT lockstep
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT client)
install(EXPORT lockstep NAMESPACE lockstep:: FILE lockstepTargets.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/lockstep COMPONENT client)
install(DIRECTORY include/lockstep DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT client)

configure_package_config_file(cmake/lockstepConfig.cmake.in
  ${CMAKE_BINARY_DIR}/package/lockstepConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/lockstep)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/package/lockstepConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
# From where it lies, so that it stays true under another prefix than this build was configured with.
file(RELATIVE_PATH LOCKSTEP_PC_TO_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/lockstep.pc.in ${CMAKE_BINARY_DIR}/package/lockstep.pc @ONLY)
install(FILES
  ${CMAKE_BINARY_DIR}/package/lockstepConfig.cmake
  ${CMAKE_BINARY_DIR}/package/lockstepConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/lockstep COMPONENT client)
install(FILES ${CMAKE_BINARY_DIR}/package/lockstep.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT client)

install(TARGETS lockstep RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT programs)
if(LOCKSTEP_SERVER)
  install(TARGETS lockstep-agent lockstep-server
    RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT programs)
endif()
