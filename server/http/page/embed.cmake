# Writes OUT, a C file with the page's FILES as bytes, their media types and their ETags (api/page_files.h). Fails where
# the whole page is larger than 100 KiB: it is to come quickly, and to stay something that one can read.
#
#   cmake -DSOURCE=… -DFILES=index.html:page.css -DOUT=… -P embed.cmake
cmake_minimum_required(VERSION 3.25)
set(most_bytes 102400)
set(type_html "text/html; charset=utf-8")
set(type_css "text/css; charset=utf-8")
set(type_js "text/javascript; charset=utf-8")
set(type_svg "image/svg+xml")

string(REPLACE ":" ";" names "${FILES}")
set(total 0)
set(i 0)
foreach(name IN LISTS names)
  file(READ ${SOURCE}/${name} hex HEX)
  file(SIZE ${SOURCE}/${name} bytes)
  file(SHA256 ${SOURCE}/${name} hash)
  string(SUBSTRING ${hash} 0 32 tag)
  string(REGEX REPLACE "(..)" "0x\\1," array "${hex}")
  string(REGEX REPLACE "^.*\\." "" ending ${name})
  if(NOT type_${ending})
    message(FATAL_ERROR "${name}: no media type is known for .${ending}")
  endif()
  string(APPEND arrays "static const unsigned char file_${i}[] = {${array}};\n")
  string(APPEND rows "    {\"${name}\", \"${type_${ending}}\", \"\\\"${tag}\\\"\", file_${i}, sizeof file_${i}},\n")
  math(EXPR total "${total} + ${bytes}")
  math(EXPR i "${i} + 1")
endforeach()
if(total GREATER most_bytes)
  message(FATAL_ERROR "the page has ${total} bytes, of ${most_bytes} at most")
endif()
file(WRITE ${OUT} "/* made from server/http/page/ by embed.cmake */\n#include \"server/http/api/page_files.h\"\n\n${arrays}\n"
     "const struct lf_page_file lf_page_files[] = {\n${rows}};\nconst int lf_page_files_n = ${i};\n")
