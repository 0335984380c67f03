// antiphon: JSON-RPC as a state machine. Written by cbindgen from src/; do not edit.
//
// Bytes go in and events come out; answers and calls go in and bytes come out; the time goes in and deadlines come out. Nothing
// blocks, calls back or has a thread.
//
// What callers keep to:
//  * A pointer to a configuration or connection came from this library and was not freed. Two threads do not use one at once; it
//    may move from one to another. Different ones have nothing in common.
//  * A pointer that is passed in is NULL, or leads to as much as its length says or to a text that ends in NUL. It is only used
//    during the call: nothing of the caller is kept.
//  * What a function returns through a pointer belongs to the library and is never freed by the caller, but for what
//    `antiphon_config_new` and `antiphon_new` make. How long it stays is said with the function.
//  * Texts are UTF-8. JSON texts have a length, all others end in NUL.
//  * Numbers of requests and calls are not reused: one that has ended, or is of another connection, is refused with a code.
//    NULL, wrong numbers, texts that are no JSON, and any order of calls are refused with a code too, and change nothing.

#ifndef ANTIPHON_H
#define ANTIPHON_H

#include <stddef.h>
#include <stdint.h>

// Stands for no time at all: in timeouts and deadlines.
#define ANTIPHON_NEVER UINT64_MAX

// A message a line.
#define ANTIPHON_NEWLINE 0

// Headers before each message, as language servers have them.
#define ANTIPHON_CONTENT_LENGTH 1

// Values one after another.
#define ANTIPHON_CONCATENATED 2

// A transport that keeps messages apart: use `antiphon_message`.
#define ANTIPHON_MESSAGES 3

// As the peer's first bytes show.
#define ANTIPHON_DETECT 4

// What a function returns. A function that does not return `ANTIPHON_OK` has done nothing.
enum antiphon_code
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // It is done.
  ANTIPHON_OK = 0,
  // A pointer that is needed is NULL.
  ANTIPHON_NULL = 1,
  // A text is not UTF-8.
  ANTIPHON_NOT_UTF8 = 2,
  // A text is not one JSON value.
  ANTIPHON_NOT_JSON = 3,
  // A length is larger than any block of memory.
  ANTIPHON_BAD_LENGTH = 4,
  // There is no preset of this name.
  ANTIPHON_NO_PRESET = 5,
  // There is no setting of this name.
  ANTIPHON_NO_SETTING = 6,
  // The setting cannot have this value.
  ANTIPHON_BAD_VALUE = 7,
  // The request was answered already, or has ended, or the call has ended, or neither ever was.
  ANTIPHON_NOT_OPEN = 8,
  // The request or call is one of another connection.
  ANTIPHON_OTHER_CONNECTION = 9,
  // Input that was given before has not been read yet: take all events first.
  ANTIPHON_UNREAD_INPUT = 10,
  // No batch was begun.
  ANTIPHON_NO_BATCH = 11,
  // The array has too few entries.
  ANTIPHON_NO_SPACE = 12,
  // The connection has ended, or is about to.
  ANTIPHON_CLOSED = 20,
  // Too much output waits: send it first.
  ANTIPHON_FULL = 21,
  // Too many calls are open.
  ANTIPHON_TOO_MANY_CALLS = 22,
  // The message is over a limit.
  ANTIPHON_TOO_LARGE = 23,
  // The method is blank.
  ANTIPHON_BLANK_METHOD = 24,
  // The params are neither an array nor an object.
  ANTIPHON_PARAMS_SCALAR = 25,
  // Version 1.0 has no params by name.
  ANTIPHON_PARAMS_BY_NAME = 26,
  // The dialect has no batches.
  ANTIPHON_BATCHES_OFF = 27,
  // The batch has too many entries.
  ANTIPHON_BATCH_TOO_LONG = 28,
  // The batch has no entries.
  ANTIPHON_BATCH_EMPTY = 29,
  // The connection cannot carry this message now, or the dialect has no such message.
  ANTIPHON_NOT_SENT = 30,
  // The error code is reserved.
  ANTIPHON_RESERVED_CODE = 31,
  // Anything else that the core refuses.
  ANTIPHON_REFUSED = 32,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum antiphon_code antiphon_code;
#else
typedef int32_t antiphon_code;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// What an event tells.
enum antiphon_kind
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // There is none before more input arrives, a later time is set, or something is asked for.
  ANTIPHON_NOTHING = 0,
  // The peer calls `method` with `value`, its params. Answer `request`, once.
  ANTIPHON_REQUEST = 1,
  // The peer says `method` with `value`, its params.
  ANTIPHON_NOTIFICATION = 2,
  // `call` has ended with the result `value`.
  ANTIPHON_RESULT = 3,
  // `call` has ended with an error: `code`, `text` is its message, and `value` its data.
  ANTIPHON_ERROR = 4,
  // `call` has ended with an answer that is not valid; `text` says why, and `value` is the answer.
  ANTIPHON_INVALID = 5,
  // `call` has ended without an answer in time.
  ANTIPHON_TIMED_OUT = 6,
  // `call` has ended because the answer to its batch had none for it.
  ANTIPHON_MISSING = 7,
  // `call` has ended because its message was not sent.
  ANTIPHON_UNSENT = 8,
  // `call` has ended because the connection did.
  ANTIPHON_ABORTED = 9,
  // The peer gives up `request`, or the connection has ended. `owed` says whether it still has to be answered.
  ANTIPHON_CANCELLED = 10,
  // A message was not valid; `text` says why, `code` is what the peer was answered, and 0 stands for no answer.
  ANTIPHON_MALFORMED = 11,
  // A valid message was over a limit; `text` says which, `code` as for `ANTIPHON_MALFORMED`.
  ANTIPHON_REFUSED_MESSAGE = 12,
  // A response or a cancel fits nothing; `text` says what it is.
  ANTIPHON_UNMATCHED = 13,
  // Nothing more is read; `text` says why.
  ANTIPHON_ENDED = 14,
  // Something that this version of the header does not know.
  ANTIPHON_OTHER = 15,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum antiphon_kind antiphon_kind;
#else
typedef uint32_t antiphon_kind;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// A configuration, to make connections of.
typedef struct antiphon_config antiphon_config;

// A connection.
typedef struct antiphon_connection antiphon_connection;

// What a connection is doing.
typedef struct antiphon_state {
  // 1 if it has ended, nothing is open and no output waits; otherwise 0.
  uint32_t is_closed;
  // 0 if the peer should not be read from now, because it does not read itself, or the connection has ended; otherwise 1.
  uint32_t wants_input;
  // The calls that have not ended.
  size_t calls_open;
  // The requests of the peer that were not answered.
  size_t requests_open;
} antiphon_state;

// A text, UTF-8 and followed by a NUL that `len` does not count; `bytes` is NULL if there is none.
typedef struct antiphon_text {
  // Where it is.
  const char *bytes;
  // How many bytes it has.
  size_t len;
} antiphon_text;

// An event. Fields that its kind does not mention are zero, and texts NULL.
typedef struct antiphon_event {
  // What it tells, and so which fields count.
  antiphon_kind kind;
  // 1 if a request that was cancelled still has to be answered, otherwise 0.
  uint32_t owed;
  // The number of a request, to answer it by.
  uint64_t request;
  // The number that `antiphon_call` or `antiphon_batch_send` gave.
  uint64_t call;
  // What `antiphon_call` was given for the call.
  uint64_t tag;
  // An error's code.
  int64_t code;
  // The place in its batch; -1 if the message was no part of one.
  int64_t batch_index;
  // A method's name, with escapes resolved.
  struct antiphon_text method;
  // JSON: params, a result, or the data of an error.
  struct antiphon_text value;
  // JSON: the id of a request, and of a malformed or refused message if it could be read.
  struct antiphon_text id;
  // A message or reason.
  struct antiphon_text text;
} antiphon_event;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The text of a code, in English, for any number. It is never freed.
const char *antiphon_code_text(int32_t code);

// Makes a configuration. `preset` is `strict` (JSON-RPC 2.0 alone), `v1`, `mixed`, `lsp`, `mcp-2025-06-18` or another revision,
// `acp`, `acp-v2`, `ethereum`, `bitcoin`, `bitcoin-legacy`, `electrum` or `kodi`.
// Free it with `antiphon_config_free`.
antiphon_code antiphon_config_new(const char *preset,
                                  struct antiphon_config **made);

// Changes a setting: a limit or timeout by the name that it has in docs/limits.md, timeouts in nanoseconds with `ANTIPHON_NEVER` for
// none; `batches` and `cancel_on_timeout`, 0 or 1; `framing`, one of `ANTIPHON_NEWLINE` and those after it.
antiphon_code antiphon_config_set(struct antiphon_config *config,
                                  const char *setting,
                                  uint64_t value);

// Frees a configuration. Connections that were made of it stay. NULL is allowed.
antiphon_code antiphon_config_free(struct antiphon_config *config);

// Makes a connection. Free it with `antiphon_free`.
antiphon_code antiphon_new(const struct antiphon_config *config, struct antiphon_connection **made);

// Frees a connection, and all that it has returned. It sends nothing: `antiphon_close` and the rest of the output come before. NULL is
// allowed.
antiphon_code antiphon_free(struct antiphon_connection *connection);

// Says what the connection is doing.
antiphon_code antiphon_state_of(struct antiphon_connection *connection, struct antiphon_state *state);

// Takes bytes of a stream, as they were read, and copies them. `taken` says how many: fewer than `len` if the buffer is full; take the
// events then, and give the rest again.
antiphon_code antiphon_input(struct antiphon_connection *connection,
                             const void *input,
                             size_t len,
                             size_t *taken);

// Takes one whole message, from a transport that delivers messages, and copies it. All events of earlier input have to be taken before:
// until there is none.
antiphon_code antiphon_message(struct antiphon_connection *connection,
                               const void *message,
                               size_t len);

// Says that a message of this many bytes was too large for the transport, and was skipped. As for `antiphon_message`.
antiphon_code antiphon_too_large(struct antiphon_connection *connection, uint64_t size);

// Says that no more input will come. Take the events that are left afterwards.
antiphon_code antiphon_input_end(struct antiphon_connection *connection);

// Says what time it is, in nanoseconds of any clock that does not go back. Deadlines take effect in `antiphon_next_event`.
antiphon_code antiphon_time(struct antiphon_connection *connection,
                            uint64_t nanos);

// Says when `antiphon_time` has to be called next; `ANTIPHON_NEVER` if nothing waits for the time.
antiphon_code antiphon_timeout(struct antiphon_connection *connection, uint64_t *nanos);

// Takes the next event. Its texts stay until this is called again or the connection is freed.
antiphon_code antiphon_next_event(struct antiphon_connection *connection, struct antiphon_event *event);

// Answers a request with a result: a JSON value. If this fails, the request is still open, unless it says `ANTIPHON_NOT_OPEN`; answer it
// with an error then.
antiphon_code antiphon_respond(struct antiphon_connection *connection,
                               uint64_t request,
                               const char *json,
                               size_t len);

// Answers a request with an error. If `message` is NULL, the error has the standard message of its code; if `data` is NULL, it has no data.
antiphon_code antiphon_respond_error(struct antiphon_connection *connection,
                                     uint64_t request,
                                     int64_t code,
                                     const char *message,
                                     const char *data,
                                     size_t len);

// Answers a request that was cancelled, as the dialect says.
antiphon_code antiphon_respond_cancelled(struct antiphon_connection *connection, uint64_t request);

// Calls a method. `params` is a JSON array or object, or NULL for none. The call ends at `deadline`, or never on its own account if that is
// `ANTIPHON_NEVER`. One event tells of its end, with `tag`. `call` is its number.
antiphon_code antiphon_call(struct antiphon_connection *connection,
                            const char *method,
                            const char *params,
                            size_t len,
                            uint64_t deadline,
                            uint64_t tag,
                            uint64_t *call);

// Sends a notification. `params` as for `antiphon_call`.
antiphon_code antiphon_notify(struct antiphon_connection *connection,
                              const char *method,
                              const char *params,
                              size_t len);

// Ends a call without waiting for its answer, asks the peer to cancel it if the dialect can, and gives its tag back. No event follows.
antiphon_code antiphon_cancel(struct antiphon_connection *connection,
                              uint64_t call,
                              uint64_t *tag);

// Asks the peer to cancel a call. Its answer still comes.
antiphon_code antiphon_ask_cancel(struct antiphon_connection *connection, uint64_t call);

// Changes the deadline of a call.
antiphon_code antiphon_deadline(struct antiphon_connection *connection, uint64_t call, uint64_t deadline);

// Begins a batch, whose calls share a deadline. One that was begun before is dropped.
antiphon_code antiphon_batch(struct antiphon_connection *connection, uint64_t deadline);

// Adds a call to the batch. Its number comes from `antiphon_batch_send`.
antiphon_code antiphon_batch_call(struct antiphon_connection *connection,
                                  const char *method,
                                  const char *params,
                                  size_t len,
                                  uint64_t tag);

// Adds a notification to the batch.
antiphon_code antiphon_batch_notify(struct antiphon_connection *connection,
                                    const char *method,
                                    const char *params,
                                    size_t len);

// Sends the batch, and writes the numbers of its calls to `calls`, in their order: an array of `space` entries, NULL if there are no
// calls. If this fails, the batch stays as it is.
antiphon_code antiphon_batch_send(struct antiphon_connection *connection,
                                  uint64_t *calls,
                                  size_t space);

// Drops the batch.
antiphon_code antiphon_batch_drop(struct antiphon_connection *connection);

// Shows the bytes to be sent next: all that wait, or one message under `ANTIPHON_MESSAGES`; `len` is 0 if there are none. They stay until
// another function is called with this connection.
antiphon_code antiphon_output(struct antiphon_connection *connection,
                              const char **output,
                              size_t *len);

// Says that the first bytes of the output were sent.
antiphon_code antiphon_output_sent(struct antiphon_connection *connection, size_t len);

// Under `ANTIPHON_MESSAGES`, says that the message of `antiphon_output` cannot be delivered: its calls end.
antiphon_code antiphon_output_failed(struct antiphon_connection *connection);

// Ends in good order: what is open is still answered, and nothing new is begun.
antiphon_code antiphon_drain(struct antiphon_connection *connection);

// Ends at once. What waits in the output can still be sent.
antiphon_code antiphon_close(struct antiphon_connection *connection);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* ANTIPHON_H */
