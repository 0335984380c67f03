/* Counts the instructions of a program that QEMU's user mode runs, for `run.py`.
 *
 *     cc -O2 -shared -fPIC -o count.so count.c
 *     qemu-x86_64 -plugin count.so,out=FILE PROGRAM …
 *
 * Whenever the program writes to its standard output, FILE gets a line: how many instructions were executed until
 * then. Every block of translated code adds its number of instructions when it is entered, so counts are exact and
 * the same every time; a repeated string instruction counts once for each repetition.
 *
 * The declarations are those of QEMU's plugin interface, version 1 (QEMU 6.0 to 9.0), which Debian has no header for.
 */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

typedef uint64_t plugin_id;
struct qemu_plugin_tb;
enum qemu_plugin_op { QEMU_PLUGIN_INLINE_ADD_U64 };
typedef void (*translated_fn)(plugin_id, struct qemu_plugin_tb *);
typedef void (*syscall_fn)(plugin_id, unsigned, int64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                           uint64_t, uint64_t);

void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, translated_fn);
void qemu_plugin_register_vcpu_syscall_cb(plugin_id, syscall_fn);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *, enum qemu_plugin_op, void *, uint64_t);

int qemu_plugin_version = 1;

static uint64_t executed;
static FILE *out;

static void translated(plugin_id id, struct qemu_plugin_tb *block)
{
    (void)id;
    qemu_plugin_register_vcpu_tb_exec_inline(block, QEMU_PLUGIN_INLINE_ADD_U64, &executed,
                                             qemu_plugin_tb_n_insns(block));
}

static void called(plugin_id id, unsigned cpu, int64_t number, uint64_t file, uint64_t b, uint64_t c, uint64_t d,
                   uint64_t e, uint64_t f, uint64_t g, uint64_t h)
{
    (void)id, (void)cpu, (void)b, (void)c, (void)d, (void)e, (void)f, (void)g, (void)h;
    if (number == SYS_write && file == 1) {
        fprintf(out, "%" PRIu64 "\n", executed);
        fflush(out);
    }
}

int qemu_plugin_install(plugin_id id, const void *info, int count, char **options)
{
    (void)info;
    if (count != 1 || strncmp(options[0], "out=", 4) != 0 || (out = fopen(options[0] + 4, "w")) == NULL) {
        fprintf(stderr, "count.so: out=FILE is missing, or FILE cannot be written\n");
        return 1;
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_vcpu_syscall_cb(id, called);
    return 0;
}
