#include "text.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */

size_t text_utf8_length(const char *text) {
    const unsigned char *s = (const unsigned char *)text;
    size_t length = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
    if (length == 1)
        return s[0] != 0;
    if (!length || s[0] > 0xf4)
        return 0;
    uint32_t code = s[0] & (0xffu >> (length + 1));
    for (size_t i = 1; i < length; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (s[i] & 0x3f);
    }
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    bool surrogate = code >= 0xd800 && code < 0xe000;
    return code < least[length] || code > 0x10ffff || surrogate ? 0 : length;
}

/* Writes the character at `text`, which needs no escape, and returns its bytes. */
static size_t write_plain(const char *text, FILE *out) {
    size_t length = text_utf8_length(text);
    if (length)
        fwrite(text, 1, length, out);
    else
        fputs(replacement, out);
    return length ? length : 1;
}

void text_json(const char *text, FILE *out) {
    fputc('"', out);
    while (*text) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            fprintf(out, "\\%c", *text++);
        else if (c < 0x20 || c == 0x7f)
            fprintf(out, "\\u%04x", *text++);
        else
            text += write_plain(text, out);
    }
    fputc('"', out);
}

void text_xml(const char *text, FILE *out) {
    static const struct {
        char c;
        const char *escape;
    } escapes[] = {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}};
    while (*text) {
        const char *escape = (unsigned char)*text < 0x20 ? replacement : NULL; /* XML allows none */
        for (size_t i = 0; i < sizeof escapes / sizeof escapes[0]; i++)
            if (*text == escapes[i].c)
                escape = escapes[i].escape;
        if (escape) {
            fputs(escape, out);
            text++;
        } else {
            text += write_plain(text, out);
        }
    }
}

void text_csv(const char *text, FILE *out) {
    bool quoted = strpbrk(text, ",\"\r\n") != NULL;
    if (quoted)
        fputc('"', out);
    while (*text) {
        if (*text == '"')
            fputc('"', out);
        text += write_plain(text, out);
    }
    if (quoted)
        fputc('"', out);
}
