/*
 * The files of a `ringlet bench`: JSON with all there is, CSV with the rows, the chart.
 * Owns the form of the JSON. Never measures.
 */
#include "bench.h"

/* Version of the JSON's form: 1 more when a field goes or changes its meaning. */
enum { SCHEMA_VERSION = 1 };

static void write_option(struct json *json, const struct options_entry *entry,
                         const struct settings *set) {
    const char *member = (const char *)set + entry->offset;
    const char *name = entry->long_name;
    switch (entry->kind) {
    case OPTIONS_FLAG:
        json_bool(json, name, *(const int *)(const void *)member);
        return;
    case OPTIONS_SIZE:
    case OPTIONS_SIZE_0:
    case OPTIONS_NUMBER:
        if (options_is_set(entry, *(const uint64_t *)(const void *)member))
            json_whole(json, name, *(const uint64_t *)(const void *)member);
        else
            json_null(json, name);
        return;
    case OPTIONS_TIME:
        json_signed(json, name, *(const int64_t *)(const void *)member);
        return;
    case OPTIONS_CHOICE:
        json_text(json, name,
                  *(const int *)(const void *)member < 0
                      ? NULL
                      : entry->choices[*(const int *)(const void *)member]);
        return;
    case OPTIONS_TEXT:
        json_text(json, name, *(const char *const *)(const void *)member);
        return;
    }
}

static void write_devices(struct json *json, const struct session *s) {
    json_list(json, "devices");
    for (int rank = 0; rank < s->ranks; rank++) {
        ringlet_device_info info = {.struct_size = sizeof info};
        if (ringlet_comm_device_query(s->comm, rank, &info))
            continue;
        json_object_line(json, NULL);
        json_whole(json, "rank", (uint64_t)rank);
        json_signed(json, "device", info.device);
        json_text(json, "name", info.name);
        json_text(json, "pci", info.pci[0] ? info.pci : NULL);
        json_whole(json, "memory_bytes", info.memory_bytes);
        json_end(json);
    }
    json_end(json);
}

static void write_run(struct json *json, const struct bench *b) {
    const struct session *s = &b->session;
    json_text(json, "schema", "ringlet bench");
    json_whole(json, "schema_version", SCHEMA_VERSION);
    json_text(json, "ringlet_version", ringlet_version());
    json_list_line(json, "command");
    json_text(json, NULL, "ringlet");
    for (int i = 0; i < b->job.argc; i++)
        json_text(json, NULL, b->job.argv[i]);
    json_end(json);
    json_bool(json, "modelled", s->modelled);
    json_text(json, "backend", s->emulated ? "emulated" : "cuda");
    json_text(json, "machine", s->machine);
    json_text(json, "cuda", command_cuda_text());
    json_whole(json, "ranks", (uint64_t)s->ranks);
    write_devices(json, s);
    json_object(json, "options");
    for (size_t i = 0; i < bench_command.count; i++)
        write_option(json, &bench_command.entries[i], &b->job.set);
    json_whole(json, "samples", s->modelled ? 1 : SAMPLES);
    json_end(json);
}

static void write_json(const struct bench *b, FILE *out) {
    struct json json = {.out = out};
    json_object(&json, NULL);
    write_run(&json, b);
    json_list(&json, "rows");
    for (size_t i = 0; i < b->records.count; i++)
        record_write_json(&b->records.items[i], &json);
    json_end(&json);
    json_real(&json, "average_busbw_gbps", 6, report_average(&b->report));
    if (b->report.checked)
        json_whole(&json, "wrong", b->report.wrong);
    else
        json_null(&json, "wrong");
    json_end(&json);
}

bool bench_write_files(const struct bench *b, char *why) {
    const char *const paths[] = {b->job.set.json, b->job.set.csv, b->job.set.plot};
    for (int i = 0; i < 3; i++) {
        struct output output;
        bool fine = true;
        if (!paths[i])
            continue;
        if (!output_open(&output, paths[i])) {
            snprintf(why, OUTPUT_WHY_MAX, "cannot write %s: out of memory", paths[i]);
            return false;
        }
        if (i == 0)
            write_json(b, output.out);
        else if (i == 1)
            record_write_csv(&b->records, output.out);
        else
            fine = bench_plot(b, output.out);
        if (!fine) {
            output_drop(&output);
            snprintf(why, OUTPUT_WHY_MAX, "cannot draw %s: out of memory", paths[i]);
            return false;
        }
        if (!output_save(&output, why))
            return false;
    }
    return true;
}
