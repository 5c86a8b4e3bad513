#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../bench/chart.h"
#include "../bench/json.h"
#include "../bench/text.h"
#include "suite.h"

/* The labels of all ticks, one blank between them. */
static const char *labels(enum ticks_scale scale, enum ticks_unit unit, double least, double most) {
    static char all[512];
    char label[TICKS_LABEL_MAX];
    struct ticks ticks;
    ticks_choose(&ticks, scale, least, most);
    all[0] = '\0';
    for (int i = 0; i < ticks.count; i++) {
        if (i)
            strcat(all, " ");
        strcat(all, ticks_label(unit, ticks.at[i], label));
    }
    return all;
}

START_TEST(test_ticks_of_people) {
    static const struct {
        enum ticks_scale scale;
        enum ticks_unit unit;
        double least, most;
        const char *labels;
    } cases[] = {
        {TICKS_LINEAR, TICKS_PLAIN, 3, 372, "0 100 200 300 400"},
        {TICKS_LINEAR, TICKS_PLAIN, 1, 96.6, "0 20 40 60 80 100"},
        {TICKS_LINEAR, TICKS_PLAIN, 0.1, 0.25, "0 0.05 0.1 0.15 0.2 0.25"},
        {TICKS_LINEAR, TICKS_PLAIN, 0, 0, "0 0.2 0.4 0.6 0.8 1"},
        {TICKS_LINEAR, TICKS_PLAIN, 600, 600, "0 100 200 300 400 500 600"},
        {TICKS_LOG10, TICKS_MICROSECONDS, 3, 40, "2 µs 5 µs 10 µs 20 µs 50 µs"},
        {TICKS_LOG10, TICKS_MICROSECONDS, 0.4, 2, "200 ns 500 ns 1 µs 2 µs"},
        {TICKS_LOG10, TICKS_MICROSECONDS, 5, 5, "5 µs 10 µs"},
        {TICKS_LOG10, TICKS_MICROSECONDS, 11, 3e6, "10 µs 100 µs 1 ms 10 ms 100 ms 1 s"},
        {TICKS_LOG2, TICKS_BYTES, 1 << 20, 1 << 24, "1 MiB 2 MiB 4 MiB 8 MiB 16 MiB"},
        {TICKS_LOG2, TICKS_BYTES, 8, 1 << 12,
         "8 B 16 B 32 B 64 B 128 B 256 B 512 B 1 KiB 2 KiB 4 KiB"},
        {TICKS_LOG2, TICKS_BYTES, 8, 1 << 30,
         "8 B 32 B 128 B 512 B 2 KiB 8 KiB 32 KiB 128 KiB 512 KiB 2 MiB 8 MiB 32 MiB 128 MiB "
         "512 MiB"},
        {TICKS_LOG2, TICKS_BYTES, 1, 0x1p40,
         "1 B 32 B 1 KiB 32 KiB 1 MiB 32 MiB 1 GiB 32 GiB 1 TiB"},
        {TICKS_LOG2, TICKS_BYTES, 64, 64, "32 B 64 B 128 B"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        ck_assert_str_eq(labels(cases[i].scale, cases[i].unit, cases[i].least, cases[i].most),
                         cases[i].labels);
}
END_TEST

/* Whatever the data: few ticks, ascending, inside an axis that holds all values. */
START_TEST(test_ticks_always_fit) {
    enum ticks_scale scale = (enum ticks_scale)_i;
    for (double least = 1e-9; least < 1e12; least *= 3.7)
        for (double most = least; most < 1e15; most *= 2.3) {
            struct ticks t;
            ticks_choose(&t, scale, least, most);
            ck_assert_int_ge(t.count, 2);
            ck_assert_int_le(t.count, 14);
            ck_assert(t.low < t.high && t.low <= least * (1 + 1e-8));
            ck_assert(t.high >= most * (1 - 1e-8));
            for (int k = 0; k < t.count; k++) {
                double place = ticks_place(&t, t.at[k]);
                ck_assert(place > -1e-6 && place < 1 + 1e-6);
                ck_assert(!k || t.at[k] > t.at[k - 1]);
            }
        }
}
END_TEST

START_TEST(test_places) {
    struct ticks t;
    ticks_choose(&t, TICKS_LOG2, 8, 32768);
    ck_assert(fabs(ticks_place(&t, 8)) < 1e-12);
    ck_assert(fabs(ticks_place(&t, 32768) - 1) < 1e-12);
    ck_assert(fabs(ticks_place(&t, 512) - 0.5) < 1e-12);
    ticks_choose(&t, TICKS_LINEAR, 1, 400);
    ck_assert(fabs(ticks_place(&t, 100) - 0.25) < 1e-12);
    ticks_choose(&t, TICKS_LOG10, NAN, -3);
    ck_assert_int_ge(t.count, 2);
}
END_TEST

static char *draw(const struct chart *chart) {
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    chart_write(chart, out);
    fclose(out);
    return text;
}

static int count(const char *text, const char *part) {
    int found = 0;
    for (const char *at = text; (at = strstr(at, part)); at++)
        found++;
    return found;
}

START_TEST(test_charts) {
    const struct chart_point points[] = {{8, 1}, {64, NAN}, {512, 20}, {0, 3}, {4096, 300}};
    struct chart_series series[] = {{"a < b & \"c\"", points, 5, 0, false},
                                    {"d", points, 5, 9, true}};
    struct chart chart = {.title = "<title>",
                          .subtitle = "sub",
                          .warning = "warn",
                          .x = {"size", TICKS_LOG2, TICKS_BYTES},
                          .y = {"rate", TICKS_LINEAR, TICKS_PLAIN},
                          .series = series,
                          .count = 2};
    char *first = draw(&chart), *second = draw(&chart);
    ck_assert_str_eq(first, second);
    ck_assert_int_eq(count(first, "<g class=\"series\">"), 2);
    ck_assert_int_eq(count(first, "class=\"entry\""), 2);
    ck_assert_int_eq(count(first, "a &lt; b &amp; &quot;c&quot;, 512 B: 20"), 1);
    ck_assert_int_eq(count(first, ", 64 B:"), 0); /* a gap */
    ck_assert_int_eq(count(first, "nan"), 0);
    ck_assert_int_eq(count(first, "inf"), 0);
    free(first);
    free(second);
    chart.count = 0; /* nothing to draw is drawn all the same */
    first = draw(&chart);
    ck_assert_int_eq(count(first, "</svg>"), 1);
    ck_assert_int_eq(count(first, "nan"), 0);
    free(first);
}
END_TEST

static const char *written(void (*write)(const char *, FILE *), const char *text) {
    static char buffer[256];
    FILE *out = fmemopen(buffer, sizeof buffer, "w");
    write(text, out);
    fclose(out);
    return buffer;
}

START_TEST(test_escapes) {
    static const struct {
        const char *text, *json, *xml, *csv;
    } cases[] = {
        {"plain", "\"plain\"", "plain", "plain"},
        {"a\"b\\c", "\"a\\\"b\\\\c\"", "a&quot;b\\c", "\"a\"\"b\\c\""},
        {"x,y", "\"x,y\"", "x,y", "\"x,y\""},
        {"l\n\t\x7f", "\"l\\u000a\\u0009\\u007f\"", "l\xef\xbf\xbd\xef\xbf\xbd\x7f",
         "\"l\n\t\x7f\""},
        {"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "\"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\"",
         "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"},
        /* a lone byte, too long a form, a surrogate, a sequence cut short, above U+10FFFF */
        {"\xff", "\"\xef\xbf\xbd\"", "\xef\xbf\xbd", "\xef\xbf\xbd"},
        {"\xc0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\"", "\xef\xbf\xbd\xef\xbf\xbd",
         "\xef\xbf\xbd\xef\xbf\xbd"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ck_assert_str_eq(written(text_json, cases[i].text), cases[i].json);
        ck_assert_str_eq(written(text_xml, cases[i].text), cases[i].xml);
        ck_assert_str_eq(written(text_csv, cases[i].text), cases[i].csv);
    }
    ck_assert_uint_eq(text_utf8_length("\xed\xa0\x80"), 0);
    ck_assert_uint_eq(text_utf8_length("\xe2\x82"), 0);
    ck_assert_uint_eq(text_utf8_length("\xf4\x90\x80\x80"), 0);
    ck_assert_uint_eq(text_utf8_length("\xf4\x8f\xbf\xbf"), 4);
    ck_assert_uint_eq(text_utf8_length(""), 0);
}
END_TEST

START_TEST(test_json) {
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    struct json json = {.out = out};
    json_object(&json, NULL);
    json_real(&json, "a", 2, 1.005e3);
    json_real(&json, "b", 2, NAN);
    json_real(&json, "c", 2, -INFINITY);
    json_list(&json, "d");
    json_end(&json);
    json_list_line(&json, "e");
    json_whole(&json, NULL, UINT64_MAX);
    json_object(&json, NULL);
    json_bool(&json, "f", true);
    json_end(&json);
    json_end(&json);
    json_signed(&json, "g", -1);
    json_text(&json, "h", NULL);
    json_end(&json);
    fclose(out);
    ck_assert_str_eq(text, "{\n  \"a\": 1005.00,\n  \"b\": null,\n  \"c\": null,\n  \"d\": [],\n"
                           "  \"e\": [18446744073709551615, {\"f\": true}],\n  \"g\": -1,\n"
                           "  \"h\": null\n}\n");
    free(text);
}
END_TEST

static Suite *suite(void) {
    Suite *suite = suite_create("chart");
    TCase *tests = tcase_create("chart");
    tcase_add_test(tests, test_ticks_of_people);
    tcase_add_loop_test(tests, test_ticks_always_fit, 0, 3);
    tcase_add_test(tests, test_places);
    tcase_add_test(tests, test_charts);
    tcase_add_test(tests, test_escapes);
    tcase_add_test(tests, test_json);
    suite_add_tcase(suite, tests);
    return suite;
}

SUITE_MAIN(suite)
