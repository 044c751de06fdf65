# Debian's own wishes, between installing into the staging folder and packing it: compressed man page and changelog, a
# copyright file, and zsh's completions where Debian's zsh looks for them.
file(GLOB staged ${CPACK_TEMPORARY_DIRECTORY}/usr ${CPACK_TEMPORARY_DIRECTORY}/*/usr)
list(GET staged 0 usr)
set(doc ${usr}/share/doc/${CPACK_PACKAGE_NAME})
if(NOT EXISTS ${doc})
  file(RENAME ${usr}/share/doc/longflash ${doc})
endif()

string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
if(EXISTS ${CPACK_LF_SOURCE_DIR}/.git)
  execute_process(COMMAND git -C ${CPACK_LF_SOURCE_DIR} log -1 --format=%cD OUTPUT_VARIABLE commit_date
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(commit_date)
    set(date ${commit_date})
  endif()
endif()
file(WRITE ${doc}/changelog.Debian
     "${CPACK_PACKAGE_NAME} (${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}) unstable; urgency=medium\n\n"
     "  * Version ${CPACK_PACKAGE_VERSION}: see CHANGELOG.md.\n\n -- ${CPACK_PACKAGE_CONTACT}  ${date}\n")
if(EXISTS ${doc}/CHANGELOG.md)
  file(RENAME ${doc}/CHANGELOG.md ${doc}/changelog)
endif()
file(COPY ${CPACK_LF_SOURCE_DIR}/packaging/debian/copyright DESTINATION ${doc})
file(RENAME ${usr}/share/zsh/site-functions ${usr}/share/zsh/vendor-completions)
file(GLOB compressed ${usr}/share/man/man1/*.1 ${doc}/changelog*)
execute_process(COMMAND gzip -9nf ${compressed} COMMAND_ERROR_IS_FATAL ANY)
# A checkout may have been made with another umask.
file(GLOB_RECURSE files ${usr}/share/*)
list(FILTER files EXCLUDE REGEX "/examples/")
foreach(file ${files})
  file(CHMOD ${file} PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
endforeach()
