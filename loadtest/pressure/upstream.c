/* The upstream of a server under pressure: answers every query at once, over UDP and TCP.
 *
 *     upstream PORT
 *
 * The label before the last one says what a name gets:
 *     any.silent.example   nothing
 *     any.large.example    TC over UDP; 4,000 A records, 64 KB, over TCP
 *     any.bare.example     a record of class ANY without RDATA
 *     any other            one A record with a TTL of an hour
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
#define MOST_QUERY 512
#define MOST_REPLY 65535
#define MOST_FD 4096
#define RECORDS 4000
#define TTL_HIGH 0x0e /* 3,600 seconds */
#define TTL_LOW 0x10

struct stream {
    size_t used;
    unsigned char data[2 + MOST_QUERY];
};

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

/* The label before the last one, or an empty one. */
static int has_label(const unsigned char *label, const char *text)
{
    return label && label[0] == strlen(text) && !strncasecmp((const char *)label + 1, text, label[0]);
}

/* Write the reply to a query; return its length, 0 for none. */
static size_t answer(const unsigned char *query, size_t length, unsigned char *out, int tcp)
{
    const unsigned char *last = NULL, *before = NULL;
    size_t at = 12;
    if (length < 17)
        return 0;
    while (at < length && query[at]) {
        before = last;
        last = query + at;
        at += 1 + query[at];
    }
    at += 5;
    if (at > length || has_label(before, "silent"))
        return 0;
    memcpy(out, query, at);
    memset(out + 6, 0, 6);
    out[2] = 0x81;
    out[3] = 0x80;
    if (has_label(before, "large") && !tcp) {
        out[2] |= 2;
        return at;
    }
    int is_bare = has_label(before, "bare"), count = has_label(before, "large") ? RECORDS : 1;
    if (query[at - 4] || query[at - 3] != 1)
        count = 0;
    out[6] = count >> 8;
    out[7] = count;
    for (int i = 0; i < count; i++) {
        unsigned char record[16] = {0xc0, 12, 0, 1, 0, is_bare ? 255 : 1, 0, 0, TTL_HIGH, TTL_LOW, 0, is_bare ? 0 : 4,
                                    198,  18, i >> 8, i};
        memcpy(out + at, record, sizeof record);
        at += is_bare ? 12 : 16;
    }
    return at;
}

static void serve_udp(int fd)
{
    static unsigned char queries[BATCH][MOST_QUERY], replies[BATCH][1024];
    static struct sockaddr_in clients[BATCH];
    static struct iovec in[BATCH], out[BATCH];
    static struct mmsghdr taken[BATCH], given[BATCH];
    for (int i = 0; i < BATCH; i++) {
        in[i] = (struct iovec){queries[i], MOST_QUERY};
        taken[i].msg_hdr = (struct msghdr){&clients[i], sizeof clients[i], &in[i], 1, NULL, 0, 0};
    }
    int got = recvmmsg(fd, taken, BATCH, MSG_DONTWAIT, NULL), count = 0;
    for (int i = 0; i < got; i++) {
        size_t length = answer(queries[i], taken[i].msg_len, replies[i], 0);
        if (!length)
            continue;
        out[count] = (struct iovec){replies[i], length};
        given[count].msg_hdr = (struct msghdr){&clients[i], sizeof clients[i], &out[count], 1, NULL, 0, 0};
        count++;
    }
    for (int sent = 0; sent < count;) {
        int done = sendmmsg(fd, given + sent, count - sent, 0);
        sent += done > 0 ? done : 1; /* a client that is gone */
    }
}

/* Answer what is whole; return 0 if the connection is over. */
static int serve_stream(int fd, struct stream *stream)
{
    static unsigned char out[2 + MOST_REPLY + 1];
    ssize_t got = read(fd, stream->data + stream->used, sizeof stream->data - stream->used);
    if (got <= 0)
        return 0;
    stream->used += got;
    while (stream->used >= 2) {
        size_t asked = stream->data[0] << 8 | stream->data[1];
        if (asked > MOST_QUERY)
            return 0;
        if (stream->used < 2 + asked)
            break;
        size_t length = answer(stream->data + 2, asked, out + 2, 1);
        out[0] = length >> 8;
        out[1] = length;
        for (size_t sent = 0; length && sent < 2 + length;) {
            ssize_t done = write(fd, out + sent, 2 + length - sent);
            if (done <= 0)
                return 0;
            sent += done;
        }
        stream->used -= 2 + asked;
        memmove(stream->data, stream->data + 2 + asked, stream->used);
    }
    return 1;
}

int main(int argc, char **argv)
{
    static struct stream *streams[MOST_FD];
    if (argc != 2) {
        fprintf(stderr, "upstream: write: upstream PORT\n");
        return 2;
    }
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1]))};
    int udp = socket(AF_INET, SOCK_DGRAM, 0), tcp = socket(AF_INET, SOCK_STREAM, 0), poll = epoll_create1(0);
    int room = 8 << 20, one = 1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (setsockopt(udp, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room))
        setsockopt(udp, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    setsockopt(tcp, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(udp, (struct sockaddr *)&address, sizeof address) ||
        bind(tcp, (struct sockaddr *)&address, sizeof address) || listen(tcp, 1024))
        fail("upstream: cannot listen");
    struct epoll_event events[BATCH], event = {.events = EPOLLIN};
    for (int i = 0; i < 2; i++) {
        event.data.fd = i ? tcp : udp;
        if (epoll_ctl(poll, EPOLL_CTL_ADD, event.data.fd, &event))
            fail("upstream: cannot watch a socket");
    }
    for (;;) {
        int ready = epoll_wait(poll, events, BATCH, -1);
        for (int i = 0; i < ready; i++) {
            int fd = events[i].data.fd;
            if (fd == udp) {
                serve_udp(udp);
            } else if (fd != tcp) {
                if (!serve_stream(fd, streams[fd])) {
                    free(streams[fd]);
                    close(fd);
                }
            } else if ((fd = accept(tcp, NULL, NULL)) >= 0) {
                event.data.fd = fd;
                setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
                if (fd >= MOST_FD || !(streams[fd] = calloc(1, sizeof(struct stream))) ||
                    epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event))
                    close(fd);
            }
        }
    }
}
