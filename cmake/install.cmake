# `cmake --install build` installs the program with its manual pages and completions, the libraries with their headers,
# and a package that find_package(Boxcar) finds; `cpack` in the build folder makes the packages boxcar and python3-boxcar of
# the same. cli/python/CMakeLists.txt installs the component python.
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME development)
get_property(libraries GLOBAL PROPERTY BOXCAR_LIBRARIES)
if(SKBUILD)  # pip puts programs there
  install(TARGETS boxcar RUNTIME DESTINATION ${SKBUILD_SCRIPTS_DIR} COMPONENT program)
else()
  install(TARGETS boxcar RUNTIME COMPONENT program)
endif()
install(TARGETS ${libraries} EXPORT BoxcarTargets ARCHIVE)
foreach(folder sbp ir backends actors sim planner cli)
  install(DIRECTORY ${folder} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/boxcar FILES_MATCHING PATTERN "*.h")
endforeach()
# As files too, from which users can start their own descriptions.
install(DIRECTORY backends/presets/ DESTINATION ${CMAKE_INSTALL_DATADIR}/boxcar/presets FILES_MATCHING PATTERN "*.yaml")
# Schemas of the documents that --json prints.
include(cmake/schemas.cmake)
install(DIRECTORY ${PROJECT_BINARY_DIR}/schemas/ DESTINATION ${CMAKE_INSTALL_DATADIR}/boxcar/schemas FILES_MATCHING PATTERN "*.json")
install(FILES LICENSE CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
# Pages that --help names.
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs PATTERN CMakeLists.txt EXCLUDE)

# The program prints its completions and manual pages.
set(made ${PROJECT_BINARY_DIR}/installed)
file(MAKE_DIRECTORY ${made})
set(pages)
foreach(command "" simulate search campaign sweep table explain diff compare-trace report export import tokenize train profile calibrate sbp clusters
                models)
  set(page boxcar)
  if(command)
    set(page boxcar-${command})
  endif()
  add_custom_command(OUTPUT ${made}/${page}.1 COMMAND boxcar man ${command} > ${made}/${page}.1 DEPENDS boxcar)
  list(APPEND pages ${made}/${page}.1)
endforeach()
set(completions)
foreach(shell bash zsh fish)
  add_custom_command(OUTPUT ${made}/boxcar.${shell} COMMAND boxcar completions ${shell} > ${made}/boxcar.${shell}
                     DEPENDS boxcar)
  list(APPEND completions ${made}/boxcar.${shell})
endforeach()
add_custom_target(boxcar_pages ALL DEPENDS ${pages} ${completions})
install(FILES ${pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${made}/boxcar.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME boxcar)
# Debian's zsh looks into site-functions of /usr/local, and into vendor-completions of /usr.
foreach(folder site-functions vendor-completions)
  install(FILES ${made}/boxcar.zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/${folder} RENAME _boxcar)
endforeach()
install(FILES ${made}/boxcar.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)

include(CMakePackageConfigHelpers)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/Boxcar)
configure_package_config_file(cmake/BoxcarConfig.cmake.in ${made}/BoxcarConfig.cmake INSTALL_DESTINATION ${package})
write_basic_package_version_file(${made}/BoxcarConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${made}/BoxcarConfig.cmake ${made}/BoxcarConfigVersion.cmake DESTINATION ${package})
install(EXPORT BoxcarTargets NAMESPACE boxcar:: DESTINATION ${package})

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "The Boxcar developers <boxcar@localhost>")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)  # the packages of the shared libraries that the program links
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_DEBIAN_ALL_PACKAGE_NAME boxcar)
set(CPACK_DEBIAN_PYTHON_PACKAGE_NAME python3-boxcar)
set(CPACK_DEBIAN_PYTHON_PACKAGE_SECTION python)
set(CPACK_DEBIAN_PYTHON_DESCRIPTION "Simulate distributed deep learning from Python")
set(CPACK_DEBIAN_PYTHON_PACKAGE_RECOMMENDS "python3-pandas")
set(python "python3")
if(TARGET boxcar_core)  # which only one version of Python loads
  math(EXPR next "${Python3_VERSION_MINOR} + 1")
  set(python "python3 (>= 3.${Python3_VERSION_MINOR}), python3 (<< 3.${next})")
endif()
set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS "boxcar (= ${PROJECT_VERSION}), ${python}")
include(CPack)
cpack_add_component_group(all)
cpack_add_component_group(python)
cpack_add_component(program GROUP all)
cpack_add_component(development GROUP all)
cpack_add_component(python GROUP python)
