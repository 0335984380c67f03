// A server on standard input and output, over poll(2): server [--limit NAME=NUMBER…] [newline|content-length|concatenated]
// It serves subtract, sum, get_data, echo, update, notify_hello and notify_sum, as the cases of the protocol want.
#include <antiphon.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void check(antiphon_code code, const char *what) {
    if (code == ANTIPHON_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, antiphon_code_text(code));
    exit(1);
}

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

// The next number of a text; `at` moves behind it, and is NULL if there is none.
static long number(const char **at) {
    while (*at && **at) {
        char *end;
        long value = strtol(*at, &end, 10);
        if (end != *at)
            return *at = end, value;
        ++*at;
    }
    return *at = NULL, 0;
}

static void serve(antiphon_connection *conn, const antiphon_event *event) {
    const char *method = event->method.bytes, *params = event->value.bytes ? event->value.bytes : "null";
    char result[32];
    const char *json = result;
    long value = 0;
    if (strcmp(method, "subtract") == 0) {
        // By name, or in this order.
        const char *from = strstr(params, "\"minuend\""), *what = strstr(params, "\"subtrahend\"");
        from = from ? from : params;
        value = number(&from);
        what = what ? what : from;
        value -= number(&what);
    } else if (strcmp(method, "sum") == 0) {
        while (params)
            value += number(&params);
    } else {
        int is_done = strcmp(method, "update") == 0 || strncmp(method, "notify_", 7) == 0;
        json = strcmp(method, "echo") == 0 ? params : strcmp(method, "get_data") == 0 ? "[\"hello\",5]" : is_done ? "null" : NULL;
    }
    snprintf(result, sizeof result, "%ld", value);
    antiphon_code code = json ? antiphon_respond(conn, event->request, json, strlen(json)) : ANTIPHON_OK;
    if (!json || code == ANTIPHON_TOO_LARGE)
        antiphon_respond_error(conn, event->request, json ? -32603 : -32601, json ? antiphon_code_text(code) : NULL, NULL, 0);
}

static antiphon_connection *connection(int count, char **words) {
    antiphon_config *config;
    antiphon_connection *made;
    check(antiphon_config_new("strict", &config), "strict");
    for (int at = 1; at < count; at++) {
        char *value = strchr(words[at], '=');
        if (value)
            *value++ = 0;
        if (value)
            check(antiphon_config_set(config, words[at], strtoull(value, NULL, 10)), words[at]);
        else if (strcmp(words[at], "content-length") == 0)
            check(antiphon_config_set(config, "framing", ANTIPHON_CONTENT_LENGTH), words[at]);
        else if (strcmp(words[at], "concatenated") == 0)
            check(antiphon_config_set(config, "framing", ANTIPHON_CONCATENATED), words[at]);
    }
    check(antiphon_new(config, &made), "connection");
    antiphon_config_free(config);
    return made;
}

int main(int count, char **words) {
    antiphon_connection *conn = connection(count, words);
    antiphon_state state;
    antiphon_event event;
    char input[4096];
    size_t begin = 0, end = 0, taken, len;
    uint64_t due, time;
    const char *output;
    struct pollfd files[2] = {{.fd = STDIN_FILENO}, {.fd = STDOUT_FILENO, .events = POLLOUT}};
    for (;;) {
        check(antiphon_time(conn, time = now()), "time");
        check(antiphon_input(conn, input + begin, end - begin, &taken), "input");
        begin += taken;
        while (check(antiphon_next_event(conn, &event), "event"), event.kind != ANTIPHON_NOTHING)
            if (event.kind == ANTIPHON_REQUEST)
                serve(conn, &event);
        check(antiphon_state_of(conn, &state), "state");
        if (state.is_closed)
            break;
        check(antiphon_timeout(conn, &due), "timeout");
        check(antiphon_output(conn, &output, &len), "output");
        // A part of the input may wait for space in the connection.
        uint64_t wait = begin < end || due <= time ? 0 : (due - time) / 1000000 + 1;
        files[0].events = state.wants_input && begin == end ? POLLIN : 0;
        files[1].fd = len ? STDOUT_FILENO : -1;
        if (poll(files, 2, due == ANTIPHON_NEVER && begin == end ? -1 : wait > 60000 ? 60000 : (int)wait) < 0)
            continue;
        ssize_t n = files[1].revents ? write(STDOUT_FILENO, output, len) : 0;
        check(n < 0 ? antiphon_close(conn) : antiphon_output_sent(conn, (size_t)n), "sent");
        if (n < 0)
            break;
        if (files[0].revents && begin == end && (n = read(STDIN_FILENO, input, sizeof input)) > 0) {
            begin = 0, end = (size_t)n;
        } else if (files[0].revents && begin == end) {
            check(antiphon_input_end(conn), "end");
            files[0].fd = -1;
        }
    }
    return antiphon_free(conn);
}
