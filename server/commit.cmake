# Writes OUT with the commit of the source tree, "unknown" where there is none to ask (a tarball, no git). Runs at every
# build, and touches the file only where it changed. LF_COMMIT in the environment says it for packagers.
#
#   cmake -DSOURCE=… -DOUT=… -P commit.cmake
cmake_minimum_required(VERSION 3.25)
set(commit "$ENV{LF_COMMIT}")
if(NOT commit AND EXISTS ${SOURCE}/.git)
  execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --abbrev=12 --exclude=*
                  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(NOT "${commit}" MATCHES "^[0-9a-zA-Z.+-]+$")
  set(commit unknown)
endif()
file(CONFIGURE OUTPUT ${OUT} CONTENT "#define LF_COMMIT \"@commit@\"\n" @ONLY)
