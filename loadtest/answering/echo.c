/* The limit: what the kernel alone costs for one datagram in and one out.  No DNS is done here.
 *
 *     echo PORT SIZES [tcp]
 *
 * Each datagram goes back with QR set, as long as the next of SIZES (a file of 16-bit numbers in the machine's order,
 * taken in turn), so that this program sends what the measured server sends.  The rest is what was in the buffer.
 * Rule 1: one thread; recvmmsg waits for one datagram and takes up to 64; one sendmmsg answers them.
 * Rule 2: the receive buffer is as large as the kernel allows, so that a burst is not lost.
 * Rule 3: with `tcp` the same is done for connections that stay open: all whole messages that one read gives are
 *         answered by one write, and what a write does not take ends the connection.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define BATCH 64
#define MOST_SIZES 65536
#define SLOT 4192 /* not a power of two: slots must not share the same lines of the cache */
#define MOST_FD 4096
#define STREAM 65536

static unsigned short sizes[MOST_SIZES];
static size_t count, next_size;

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static size_t answer_size(size_t asked)
{
    size_t size = sizes[next_size];
    next_size = next_size + 1 == count ? 0 : next_size + 1;
    if (size < asked)
        size = asked;
    return size > SLOT ? SLOT : size;
}

static void serve_udp(int fd)
{
    static unsigned char slots[BATCH][SLOT];
    static struct sockaddr_in clients[BATCH];
    static struct iovec pieces[BATCH];
    static struct mmsghdr messages[BATCH];
    for (int i = 0; i < BATCH; i++) {
        pieces[i].iov_base = slots[i];
        messages[i].msg_hdr.msg_iov = &pieces[i];
        messages[i].msg_hdr.msg_iovlen = 1;
        messages[i].msg_hdr.msg_name = &clients[i];
    }
    for (;;) {
        for (int i = 0; i < BATCH; i++) {
            pieces[i].iov_len = SLOT;
            messages[i].msg_hdr.msg_namelen = sizeof clients[i];
        }
        int got = recvmmsg(fd, messages, BATCH, MSG_WAITFORONE, NULL);
        for (int i = 0; i < got; i++) {
            slots[i][2] |= 0x80;
            pieces[i].iov_len = answer_size(messages[i].msg_len);
        }
        for (int sent = 0; sent < got;) {
            int done = sendmmsg(fd, messages + sent, got - sent, 0);
            sent += done > 0 ? done : 1; /* a client that is gone: leave its reply out */
        }
    }
}

struct stream {
    size_t used;
    unsigned char data[STREAM];
};

/* Answer what is whole; return 0 if the connection is over. */
static int serve_stream(int fd, struct stream *stream)
{
    static unsigned char out[STREAM * 8];
    ssize_t got = read(fd, stream->data + stream->used, STREAM - stream->used);
    if (got <= 0)
        return 0;
    stream->used += got;
    size_t at = 0, length = 0;
    while (stream->used - at >= 2) {
        size_t asked = stream->data[at] << 8 | stream->data[at + 1];
        if (asked < 12 || asked > SLOT)
            return 0;
        if (stream->used - at < 2 + asked || length + 2 + SLOT > sizeof out)
            break;
        size_t size = answer_size(asked);
        out[length] = size >> 8;
        out[length + 1] = size;
        memcpy(out + length + 2, stream->data + at + 2, asked);
        out[length + 4] |= 0x80;
        length += 2 + size;
        at += 2 + asked;
    }
    memmove(stream->data, stream->data + at, stream->used - at);
    stream->used -= at;
    return write(fd, out, length) == (ssize_t)length;
}

static void serve_tcp(int listener)
{
    static struct stream *streams[MOST_FD];
    struct epoll_event events[BATCH], event = {.events = EPOLLIN, .data.fd = listener};
    int poll = epoll_create1(0), one = 1;
    if (listen(listener, 1024) || poll < 0 || epoll_ctl(poll, EPOLL_CTL_ADD, listener, &event))
        fail("echo: cannot listen");
    for (;;) {
        int ready = epoll_wait(poll, events, BATCH, -1);
        for (int i = 0; i < ready; i++) {
            int fd = events[i].data.fd;
            if (fd != listener) {
                if (!serve_stream(fd, streams[fd])) {
                    free(streams[fd]);
                    close(fd);
                }
                continue;
            }
            fd = accept(listener, NULL, NULL);
            if (fd < 0)
                continue;
            event.data.fd = fd;
            if (fd >= MOST_FD || !(streams[fd] = calloc(1, sizeof(struct stream)))) {
                close(fd);
                continue;
            }
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
            if (epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event))
                fail("echo: cannot watch a connection");
        }
    }
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "echo: write: echo PORT SIZES [tcp]\n");
        return 2;
    }
    FILE *file = fopen(argv[2], "rb");
    if (!file)
        fail("echo: cannot open the file of sizes");
    count = fread(sizes, sizeof *sizes, MOST_SIZES, file);
    fclose(file);
    if (!count) {
        fprintf(stderr, "echo: the file of sizes is empty\n");
        return 2;
    }
    int tcp = argc > 3 && !strcmp(argv[3], "tcp");
    int fd = socket(AF_INET, tcp ? SOCK_STREAM : SOCK_DGRAM, 0);
    int room = 4 << 20, one = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1]))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (tcp)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    else if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room))
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    if (bind(fd, (struct sockaddr *)&address, sizeof address))
        fail("echo: cannot bind");
    if (tcp)
        serve_tcp(fd);
    else
        serve_udp(fd);
}
