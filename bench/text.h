/*
 * Text that goes into a file of another format: escaping for JSON, XML and CSV.
 * Owns what must be escaped; bytes that are no UTF-8 become U+FFFD. Never opens a file.
 */
#ifndef RINGLET_BENCH_TEXT_H
#define RINGLET_BENCH_TEXT_H

#include <stddef.h>
#include <stdio.h>

/* Bytes of the UTF-8 character that `text` begins with, 0 if it begins with none. */
size_t text_utf8_length(const char *text);

void text_json(const char *text, FILE *out); /* with its quotes */
void text_xml(const char *text, FILE *out);  /* for content and attributes */
void text_csv(const char *text, FILE *out);  /* quoted where needed */

#endif
