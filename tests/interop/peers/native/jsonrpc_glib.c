/* jsonrpc-glib, GNOME's two-way library, over stdin and stdout:
 *
 *   jsonrpc_glib server
 *   jsonrpc_glib client POINTS… -- COMMAND ARGS…
 *
 * Its errors have a code and a message and no data; it has neither batches nor a cancel of its own.
 */
#include <gio/gio.h>
#include <gio/gunixinputstream.h>
#include <gio/gunixoutputstream.h>
#include <jsonrpc-glib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TIME_MAX 25

static gint64 counted;

static void expect(gboolean held, const char *what)
{
  if (!held) {
    fprintf(stderr, "it did not hold: %s\n", what);
    exit(1);
  }
}

static gint64 number(GVariant *value)
{
  gint64 result = 0;
  GVariant *inner = g_variant_is_of_type(value, G_VARIANT_TYPE_VARIANT) ? g_variant_get_variant(value)
                                                                         : g_variant_ref(value);
  if (g_variant_is_of_type(inner, G_VARIANT_TYPE_INT64))
    result = g_variant_get_int64(inner);
  else if (g_variant_is_of_type(inner, G_VARIANT_TYPE_DOUBLE))
    result = (gint64)g_variant_get_double(inner);
  g_variant_unref(inner);
  return result;
}

static gint64 number_at(GVariant *list, gsize place)
{
  GVariant *item = g_variant_get_child_value(list, place);
  gint64 result = number(item);
  g_variant_unref(item);
  return result;
}

static GVariant *numbers(int first, int second)
{
  GVariantBuilder builder;
  g_variant_builder_init(&builder, G_VARIANT_TYPE("av"));
  g_variant_builder_add(&builder, "v", g_variant_new_int64(first));
  if (second >= 0)
    g_variant_builder_add(&builder, "v", g_variant_new_int64(second));
  return g_variant_builder_end(&builder);
}

/* -- the server */

typedef struct {
  JsonrpcClient *client;
  GVariant *id;
} Asked;

static void free_asked(Asked *asked)
{
  g_object_unref(asked->client);
  g_variant_unref(asked->id);
  g_free(asked);
}

static Asked *asked_of(JsonrpcClient *client, GVariant *id)
{
  Asked *asked = g_new0(Asked, 1);
  asked->client = g_object_ref(client);
  asked->id = g_variant_ref(id);
  return asked;
}

static gboolean slept(gpointer data)
{
  Asked *asked = data;
  jsonrpc_client_reply_async(asked->client, asked->id, g_variant_new_string("slept"), NULL, NULL, NULL);
  free_asked(asked);
  return G_SOURCE_REMOVE;
}

static void called_back(GObject *object, GAsyncResult *done, gpointer data)
{
  Asked *asked = data;
  GVariant *result = NULL;
  GError *error = NULL;
  if (jsonrpc_client_call_finish(JSONRPC_CLIENT(object), done, &result, &error)) {
    jsonrpc_client_reply_async(asked->client, asked->id, result, NULL, NULL, NULL);
    g_variant_unref(result);
  } else {
    jsonrpc_client_reply_error_async(asked->client, asked->id, error->code, error->message, NULL, NULL, NULL);
    g_error_free(error);
  }
  free_asked(asked);
}

static gboolean handle_call(JsonrpcServer *server, JsonrpcClient *client, const char *method,
                            GVariant *id, GVariant *params, gpointer data)
{
  (void)server;
  (void)data;
  if (strcmp(method, "subtract") == 0) {
    gint64 minuend = 0, subtrahend = 0;
    if (g_variant_is_of_type(params, G_VARIANT_TYPE_VARDICT)) {
      g_variant_lookup(params, "minuend", "x", &minuend);
      g_variant_lookup(params, "subtrahend", "x", &subtrahend);
    } else {
      minuend = number_at(params, 0);
      subtrahend = number_at(params, 1);
    }
    jsonrpc_client_reply_async(client, id, g_variant_new_int64(minuend - subtrahend), NULL, NULL, NULL);
  } else if (strcmp(method, "echo") == 0) {
    jsonrpc_client_reply_async(client, id, params, NULL, NULL, NULL);
  } else if (strcmp(method, "fail") == 0) {
    jsonrpc_client_reply_error_async(client, id, 7, "failed", NULL, NULL, NULL);
  } else if (strcmp(method, "sleep") == 0) {
    g_timeout_add((guint)number_at(params, 0), slept, asked_of(client, id));
  } else if (strcmp(method, "count") == 0) {
    jsonrpc_client_reply_async(client, id, g_variant_new_int64(counted), NULL, NULL, NULL);
  } else if (strcmp(method, "callback") == 0) {
    GVariant *name = g_variant_get_child_value(params, 0), *given = g_variant_get_child_value(params, 1);
    GVariant *inner = g_variant_get_variant(name), *list = g_variant_get_variant(given);
    jsonrpc_client_call_async(client, g_variant_get_string(inner, NULL), list, NULL, called_back,
                              asked_of(client, id));
    g_variant_unref(name);
    g_variant_unref(given);
    g_variant_unref(inner);
    g_variant_unref(list);
  } else {
    return FALSE;
  }
  return TRUE;
}

static void notified(JsonrpcServer *server, JsonrpcClient *client, const char *method, GVariant *params)
{
  (void)server;
  (void)client;
  (void)params;
  if (strcmp(method, "update") == 0)
    counted += 1;
}

static int serve(void)
{
  GMainLoop *loop = g_main_loop_new(NULL, FALSE);
  JsonrpcServer *server = jsonrpc_server_new();
  GIOStream *stream = g_simple_io_stream_new(g_unix_input_stream_new(0, FALSE), g_unix_output_stream_new(1, FALSE));
  g_signal_connect(server, "handle-call", G_CALLBACK(handle_call), NULL);
  g_signal_connect(server, "notification", G_CALLBACK(notified), NULL);
  g_signal_connect_swapped(server, "client-closed", G_CALLBACK(g_main_loop_quit), loop);
  jsonrpc_server_accept_io_stream(server, stream);
  g_main_loop_run(loop);
  return 0;
}

/* -- the client */

static GVariant *call(JsonrpcClient *client, const char *method, GVariant *params)
{
  GVariant *result = NULL;
  GError *error = NULL;
  if (!jsonrpc_client_call(client, method, params, NULL, &result, &error)) {
    fprintf(stderr, "%s: %d %s\n", method, error->code, error->message);
    exit(1);
  }
  return result;
}

static gint64 number_of(JsonrpcClient *client, const char *method, GVariant *params)
{
  GVariant *result = call(client, method, params);
  gint64 got = number(result);
  g_variant_unref(result);
  return got;
}

static int first_at, ended;

static void one_ended(GObject *object, GAsyncResult *done, gpointer data)
{
  int place = GPOINTER_TO_INT(data);
  GVariant *result = NULL;
  expect(jsonrpc_client_call_finish(JSONRPC_CLIENT(object), done, &result, NULL), "a call of many");
  if (place % 2 == 0)
    expect(strcmp(g_variant_get_string(result, NULL), "slept") == 0, "slept");
  else
    expect(number_at(result, 0) == place / 2, "the echo of another call");
  if (place == 0)
    first_at = ended;
  ended += 1;
  g_variant_unref(result);
}

static void order(JsonrpcClient *client)
{
  for (int i = 0; i < 50; i += 1) {
    jsonrpc_client_call_async(client, "sleep", numbers(400 - 8 * i, -1), NULL, one_ended, GINT_TO_POINTER(2 * i));
    jsonrpc_client_call_async(client, "echo", numbers(i, -1), NULL, one_ended, GINT_TO_POINTER(2 * i + 1));
  }
  while (ended < 100)
    g_main_context_iteration(NULL, TRUE);
  expect(first_at > 0, "answered in the order of the calls");
}

static void text(JsonrpcClient *client)
{
  GString *text = g_string_new(NULL);
  for (int i = 0; i < 100000; i += 1)
    g_string_append(text, "äß€😀");
  GVariantBuilder builder;
  g_variant_builder_init(&builder, G_VARIANT_TYPE("av"));
  g_variant_builder_add(&builder, "v", g_variant_new_string(text->str));
  GVariant *result = call(client, "echo", g_variant_builder_end(&builder));
  GVariant *item = g_variant_get_child_value(result, 0);
  GVariant *inner = g_variant_is_of_type(item, G_VARIANT_TYPE_VARIANT) ? g_variant_get_variant(item) : item;
  expect(strcmp(g_variant_get_string(inner, NULL), text->str) == 0, "the text");
}

static gboolean answer(JsonrpcClient *client, const char *method, GVariant *id, GVariant *params, gpointer data)
{
  (void)params;
  (void)data;
  if (strcmp(method, "who") != 0)
    return FALSE;
  const char *me[] = {"me", "é€"};
  jsonrpc_client_reply_async(client, id, g_variant_new_strv(me, 2), NULL, NULL, NULL);
  return TRUE;
}

static void back(JsonrpcClient *client)
{
  GVariantBuilder builder;
  g_signal_connect(client, "handle-call", G_CALLBACK(answer), NULL);
  g_variant_builder_init(&builder, G_VARIANT_TYPE("av"));
  g_variant_builder_add(&builder, "v", g_variant_new_string("who"));
  g_variant_builder_add(&builder, "v", numbers(1, -1));
  GVariant *result = call(client, "callback", g_variant_builder_end(&builder));
  char *said = g_variant_print(result, FALSE);
  expect(strstr(said, "me") != NULL && strstr(said, "é€") != NULL, said);
}

static void point(JsonrpcClient *client, const char *name)
{
  if (strcmp(name, "position") == 0) {
    expect(number_of(client, "subtract", numbers(42, 23)) == 19, name);
  } else if (strcmp(name, "name") == 0) {
    GVariantDict params;
    g_variant_dict_init(&params, NULL);
    g_variant_dict_insert(&params, "minuend", "x", (gint64)42);
    g_variant_dict_insert(&params, "subtrahend", "x", (gint64)23);
    expect(number_of(client, "subtract", g_variant_dict_end(&params)) == 19, name);
  } else if (strcmp(name, "notification") == 0) {
    gint64 before = number_of(client, "count", numbers(0, -1));
    for (int i = 0; i < 3; i += 1)
      expect(jsonrpc_client_send_notification(client, "update", numbers(i, -1), NULL, NULL), name);
    while (number_of(client, "count", numbers(0, -1)) != before + 3)
      g_usleep(10000);
  } else if (strcmp(name, "order") == 0) {
    order(client);
  } else if (strcmp(name, "text") == 0) {
    text(client);
  } else if (strcmp(name, "back") == 0) {
    back(client);
  } else {
    expect(FALSE, name);
  }
  printf("seen %s\n", name);
}

/* Its client gives an error object as a text, code and all. */
static void codes(JsonrpcClient *client)
{
  GVariantDict params;
  GError *error = NULL;
  g_variant_dict_init(&params, NULL);
  g_variant_dict_insert(&params, "code", "x", (gint64)7);
  g_variant_dict_insert(&params, "message", "s", "failed");
  expect(!jsonrpc_client_call(client, "fail", g_variant_dict_end(&params), NULL, NULL, &error), "fail");
  expect(strstr(error->message, " 7>") && strstr(error->message, "failed"), error->message);
  g_clear_error(&error);
  expect(!jsonrpc_client_call(client, "nope", numbers(1, -1), NULL, NULL, &error), "nope");
  expect(strstr(error->message, "-32601") != NULL, error->message);
}

static int drive(int points, char **words)
{
  GError *error = NULL;
  const char *const *command = (const char *const *)words + points + 1;
  alarm(TIME_MAX);
  GSubprocess *child = g_subprocess_newv(command, G_SUBPROCESS_FLAGS_STDIN_PIPE | G_SUBPROCESS_FLAGS_STDOUT_PIPE, &error);
  if (child == NULL) {
    fprintf(stderr, "%s\n", error->message);
    return 1;
  }
  GIOStream *stream = g_simple_io_stream_new(g_subprocess_get_stdout_pipe(child), g_subprocess_get_stdin_pipe(child));
  JsonrpcClient *client = jsonrpc_client_new(stream);
  jsonrpc_client_start_listening(client);
  for (int i = 0; i < points; i += 1)
    point(client, words[i]);
  codes(client);
  /* It calls the end of its own reading an error; the server's exit code tells how it went. */
  jsonrpc_client_close(client, NULL, NULL);
  expect(g_subprocess_wait(child, NULL, NULL) && g_subprocess_get_successful(child), "the server's exit code");
  puts("ok");
  return 0;
}

int main(int count, char **words)
{
  if (count == 2 && strcmp(words[1], "server") == 0)
    return serve();
  for (int i = 2; i < count - 1 && strcmp(words[1], "client") == 0; i += 1)
    if (strcmp(words[i], "--") == 0)
      return drive(i - 2, words + 2);
  fputs("usage: jsonrpc_glib server | client POINTS… -- COMMAND ARGS…\n", stderr);
  return 2;
}
