#include <stdio.h>
#include <string.h>

#include "../bench/available.h"
#include "../bench/options.h"
#include "suite.h"

struct settings {
    uint64_t size, number, scratch;
    int64_t time;
    int choice, flag;
    const char *text;
};

static const char *const colours[] = {"red", "green", NULL};
static const struct options_entry entries[] = {
    {'b', "minbytes", OPTIONS_SIZE, "SIZE", "the smallest", offsetof(struct settings, size), 0, 0,
     NULL},
    {'n', "iters", OPTIONS_NUMBER, "N", "how often", offsetof(struct settings, number), 1, 100,
     NULL},
    {0, "timeout", OPTIONS_TIME, "MS", "how long", offsetof(struct settings, time), 0, 0, NULL},
    {0, "colour", OPTIONS_CHOICE, NULL, "which", offsetof(struct settings, choice), 0, 0, colours},
    {'v', "verbose", OPTIONS_FLAG, NULL, "more", offsetof(struct settings, flag), 0, 0, NULL},
    {0, "machine", OPTIONS_TEXT, "FILE", "where", offsetof(struct settings, text), 0, 0, NULL},
    {0, "scratch", OPTIONS_SIZE_0, "SIZE", "room", offsetof(struct settings, scratch), 256,
     UINT64_C(1) << 40, NULL},
};
static const struct options_command command = {"ringlet try", "Tries.", "The end.", entries,
                                               sizeof entries / sizeof entries[0]};

static char out_text[8192], err_text[4096];

static enum options_result parse(struct settings *settings, const char *line) {
    static char words[512];
    char *argv[16] = {(char[]){"try"}};
    int argc = 1;
    snprintf(words, sizeof words, "%s", line);
    for (char *word = strtok(words, " "); word; word = strtok(NULL, " "))
        argv[argc++] = word;
    FILE *out = fmemopen(out_text, sizeof out_text, "w");
    FILE *err = fmemopen(err_text, sizeof err_text, "w");
    out_text[0] = err_text[0] = '\0';
    *settings = (struct settings){.size = 4096, .number = 20, .time = 30000, .choice = 1};
    enum options_result result = options_parse(&command, argc, argv, settings, out, err);
    fclose(out);
    fclose(err);
    return result;
}

START_TEST(test_every_form) {
    static const char *const lines[] = {
        "-b 8M -n 7 --timeout -1 --colour red -v --machine a/b",
        "-b8M -n7 --timeout=-1 --colour=red --verbose --machine=a/b",
        "--machine a/b -v --minbytes 8192K --iters=7 --timeout -1 --colour red",
        "--minbytes=8388608 --iters 7 --timeout -1 --colour red -v --machine a/b",
        "--minbytes 8MiB --iters 7 --timeout -1 --colour red -v --machine a/b",
        "--timeout -1 --colour red -vvn7 --machine a/b -vb 8M --",
    };
    struct settings s;
    ck_assert_int_eq(parse(&s, lines[_i]), OPTIONS_RUN);
    ck_assert_uint_eq(s.size, 8 << 20);
    ck_assert_uint_eq(s.number, 7);
    ck_assert_int_eq(s.time, -1);
    ck_assert_int_eq(s.choice, 0);
    ck_assert_int_eq(s.flag, 1);
    ck_assert_str_eq(s.text, "a/b");
    ck_assert_str_eq(err_text, "");
}
END_TEST

START_TEST(test_nothing_given_keeps_the_defaults) {
    struct settings s;
    ck_assert_int_eq(parse(&s, ""), OPTIONS_RUN);
    ck_assert_uint_eq(s.size, 4096);
    ck_assert_int_eq(s.choice, 1);
    ck_assert_int_eq(s.flag, 0);
    ck_assert_ptr_null(s.text);
}
END_TEST

START_TEST(test_zero_besides_a_range) {
    struct settings s;
    ck_assert_int_eq(parse(&s, "--scratch 256"), OPTIONS_RUN);
    ck_assert_uint_eq(s.scratch, 256);
    ck_assert_int_eq(parse(&s, "--scratch 256 --scratch 0"), OPTIONS_RUN);
    ck_assert_uint_eq(s.scratch, 0);
}
END_TEST

START_TEST(test_large_sizes) {
    static const struct {
        const char *line;
        uint64_t size;
    } cases[] = {{"-b 0", 0},
                 {"-b 2147483648", UINT64_C(1) << 31},
                 {"-b 5G", UINT64_C(5) << 30},
                 {"-b 8g", UINT64_C(8) << 30},
                 {"-b 3T", UINT64_C(3) << 40},
                 {"-b 12B", 12},
                 {"-b 18446744073709551615", UINT64_MAX}};
    struct settings s;
    ck_assert_int_eq(parse(&s, cases[_i].line), OPTIONS_RUN);
    ck_assert_uint_eq(s.size, cases[_i].size);
}
END_TEST

static const struct {
    const char *line, *message;
} mistakes[] = {
    {"--minbyte 8", "unknown option --minbyte; the nearest is --minbytes"},
    {"--mibnytes=8", "unknown option --mibnytes; the nearest is --minbytes"},
    {"--min 8", "the nearest is --minbytes"},
    {"--color red", "unknown option --color; the nearest is --colour"},
    {"--hepl", "the nearest is --help"},
    {"-B 8", "unknown option -B; the nearest is -b"},
    {"-z", "unknown option -z; known are -b -n -v -h"},
    {"-b", "--minbytes needs a value"},
    {"--iters", "--iters needs a value"},
    {"-b 8Q", "--minbytes: '8Q' is not a size"},
    {"-b -8", "--minbytes: '-8' is not a size"},
    {"-b 8KK", "'8KK' is not a size"},
    {"-b 17000000000T", "--minbytes: 17000000000T is too large; the most is 18446744073709551615"},
    {"-b 18446744073709551616", "is too large; the most is 18446744073709551615"},
    {"-b 18446744073709551616x", "is not a size"},
    {"-n 18446744073709551616", "--iters: 18446744073709551616 is too large; the most is 100\n"},
    {"--timeout 9223372036854775808", "is too large; the most is 9223372036854775807, and -1"},
    {"--scratch 255", "--scratch: 255 is not 0 or between 256 and 1T\n"},
    {"--scratch 2T", "--scratch: 2T is not 0 or between 256 and 1T\n"},
    {"-b 1.5G", "'1.5G' is not a size"},
    {"-n 0", "--iters: 0 is not between 1 and 100"},
    {"-n 101", "--iters: 101 is not between 1 and 100"},
    {"-n 1K", "--iters: '1K' is not a number"},
    {"--timeout -2", "--timeout: '-2' is not a time"},
    {"--timeout soon", "--timeout: 'soon' is not a time"},
    {"--colour blue", "--colour: 'blue' is none of red, green"},
    {"--verbose=1", "--verbose takes no value"},
    {"8", "unexpected argument '8'"},
    {"-", "unexpected argument '-'"},
    {"-v=1", "--verbose takes no value"},
    {"-vz", "unknown option -z"},
    {"-vb", "--minbytes needs a value"},
    {"--=8", "unknown option --\n"},
    {"-- -b", "unexpected argument '-b' behind --"},
    {"-- --help", "unexpected argument '--help' behind --"},
    {"--zzz 8", "unknown option --zzz\n"},
    {"--sizes 8", "unknown option --sizes\n"},
};

START_TEST(test_mistakes) {
    struct settings s;
    ck_assert_int_eq(parse(&s, mistakes[_i].line), OPTIONS_ERROR);
    ck_assert_msg(strstr(err_text, mistakes[_i].message) != NULL, "%s", err_text);
    ck_assert(!strncmp(err_text, "ringlet try: ", 13));
    ck_assert_ptr_nonnull(strstr(err_text, "try 'ringlet try --help'"));
    ck_assert_str_eq(out_text, "");
}
END_TEST

START_TEST(test_help_has_everything) {
    struct settings s;
    ck_assert_int_eq(parse(&s, "--nonsense --help"), OPTIONS_HELP);
    ck_assert_str_eq(err_text, "");
    ck_assert_ptr_nonnull(strstr(out_text, "Usage: ringlet try [options]\n\nTries."));
    ck_assert_ptr_nonnull(strstr(out_text, "-b, --minbytes SIZE"));
    ck_assert_ptr_nonnull(strstr(out_text, "the smallest (default 4K)"));
    ck_assert_ptr_nonnull(strstr(out_text, "--colour red|green"));
    ck_assert_ptr_nonnull(strstr(out_text, "which (default green)"));
    ck_assert_ptr_nonnull(strstr(out_text, "how long (default 30000)"));
    ck_assert_ptr_nonnull(strstr(out_text, "The end."));
    for (size_t i = 0; i < command.count; i++)
        ck_assert_ptr_nonnull(strstr(out_text, entries[i].long_name));
}
END_TEST

START_TEST(test_nearest_and_sizes) {
    static const char *const names[] = {"bench", "info", "check"};
    char buffer[24];
    ck_assert_uint_eq(options_nearest("bnech", names, 3), 0);
    ck_assert_uint_eq(options_nearest("inf", names, 3), 1);
    ck_assert_uint_eq(options_nearest("chekc", names, 3), 2);
    ck_assert_uint_eq(options_nearest("in", names, 3), 1);
    ck_assert_uint_eq(options_nearest("", names, 3), 3);
    ck_assert_uint_eq(options_nearest("machine", names, 3), 3);
    ck_assert_uint_eq(options_nearest("fo", names, 3), 3);
    ck_assert_uint_eq(options_nearest("bench", names, 0), 0);
    ck_assert_str_eq(options_size_text(0, buffer), "0");
    ck_assert_str_eq(options_size_text(1025, buffer), "1025");
    ck_assert_str_eq(options_size_text(UINT64_C(3) << 30, buffer), "3G");
}
END_TEST

static uint64_t read_available(const char *text) {
    FILE *file = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
    uint64_t bytes = available_read(file);
    fclose(file);
    return bytes;
}

START_TEST(test_available_memory) {
    ck_assert_uint_eq(read_available("MemTotal: 9 kB\nMemFree: 1 kB\nMemAvailable:  7 kB\n"), 7168);
    ck_assert_uint_eq(read_available("MemTotal:       9 kB\n"), UINT64_MAX);
    ck_assert_uint_eq(read_available("MemAvailable: 18014398509481984 kB\n"), UINT64_MAX);
    ck_assert_uint_gt(available_bytes(), 1 << 20);
    ck_assert_uint_lt(available_bytes(), UINT64_MAX);
}
END_TEST

#define COUNT(array) (int)(sizeof(array) / sizeof(array)[0])

static Suite *suite(void) {
    Suite *suite = suite_create("options");
    TCase *tests = tcase_create("options");
    tcase_add_loop_test(tests, test_every_form, 0, 6);
    tcase_add_test(tests, test_nothing_given_keeps_the_defaults);
    tcase_add_test(tests, test_zero_besides_a_range);
    tcase_add_loop_test(tests, test_large_sizes, 0, 7);
    tcase_add_loop_test(tests, test_mistakes, 0, COUNT(mistakes));
    tcase_add_test(tests, test_help_has_everything);
    tcase_add_test(tests, test_nearest_and_sizes);
    tcase_add_test(tests, test_available_memory);
    suite_add_tcase(suite, tests);
    return suite;
}

SUITE_MAIN(suite)
