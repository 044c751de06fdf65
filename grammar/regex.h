/* Patterns: a subset of ECMA-262's regular expressions (with the flag u, as JSON Schema has it) into byte automata.
 *
 *     a . [a-z] [^a-z] \d \D \w \W \s \S \n \r \t \f \v \0 \xHH \uHHHH \u{H…} \cX \/ and other escaped marks
 *     ( ) (?: ) (?<name> ) | * + ? {n} {n,} {n,m} and their lazy forms, which mean the same texts; ^ and $ anywhere
 *
 * Refused by name, since no automaton of moderate size has them or their meaning differs between engines: look-ahead
 * and look-behind, back references, \b and \B, \p{…}, flags. Classes are those of ECMA: \d and \w are ASCII.
 *
 * A pattern is parsed by recursive descent that adds states as it goes; {n,m} parses its operand again for every copy,
 * and the states are what is bounded. */
#ifndef LF_GRAMMAR_REGEX_H
#define LF_GRAMMAR_REGEX_H

#include "grammar/dfa.h"

enum lf_regex_extent {
    LF_REGEX_WHOLE,   /* the pattern is the whole text */
    LF_REGEX_ANYWHERE /* somewhere in the text, unless ^ and $ say where: JSON Schema's pattern */
};

/* The texts (of valid UTF-8) that the pattern, itself valid UTF-8, matches; in the scratch. Failures: LF_INVALID,
 * LF_UNSUPPORTED, LF_LIMIT, with where and what. */
struct lf_dfa lf_grammar_regex(struct lf_compilation *c, struct lf_str pattern, enum lf_regex_extent extent);

#endif
