/* A DNS server over UDP of a known capacity: what the search for a knee has to find.
 *
 *     paced PORT RATE
 *
 * Each query goes back with QR set.  A query takes 1/RATE seconds of service, one after the other: it is answered that
 * long after it came, or after the one before it was, whichever is later.  So at rates up to RATE nobody waits, and
 * above it the queue grows for as long as that goes on.
 * Rule 1: when a query came the kernel says (SO_TIMESTAMPNS).  What this program itself is late by, because the machine
 *         does something else, is therefore made up for at once, and does not lower the capacity.
 * Rule 2: its socket has the size that the system gives it, as those of most servers: 277 queries fit into 208 KiB.
 */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define SECOND 1000000000ll
#define SPIN 60000ll /* nanoseconds before an answer is due from which nothing is waited for */

static int64_t now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    return at.tv_sec * SECOND + at.tv_nsec;
}

static int64_t arrival(struct msghdr *message)
{
    for (struct cmsghdr *each = CMSG_FIRSTHDR(message); each; each = CMSG_NXTHDR(message, each))
        if (each->cmsg_level == SOL_SOCKET && each->cmsg_type == SCM_TIMESTAMPNS) {
            struct timespec at;
            memcpy(&at, CMSG_DATA(each), sizeof at);
            return at.tv_sec * SECOND + at.tv_nsec;
        }
    return now();
}

int main(int argc, char **argv)
{
    if (argc != 3 || atof(argv[2]) <= 0) {
        fprintf(stderr, "paced: write: paced PORT RATE\n");
        return 2;
    }
    int64_t service = SECOND / atof(argv[2]), free_at = 0;
    int fd = socket(AF_INET, SOCK_DGRAM, 0), one = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1]))}, client;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof one) ||
        bind(fd, (struct sockaddr *)&address, sizeof address)) {
        perror("paced: cannot listen");
        return 1;
    }
    for (;;) {
        unsigned char octets[4096], control[128];
        struct iovec piece = {octets, sizeof octets};
        struct msghdr message = {.msg_name = &client, .msg_namelen = sizeof client, .msg_iov = &piece, .msg_iovlen = 1,
                                 .msg_control = control, .msg_controllen = sizeof control};
        ssize_t got = recvmsg(fd, &message, 0);
        if (got < 12)
            continue;
        int64_t came = arrival(&message);
        free_at = (came > free_at ? came : free_at) + service;
        for (int64_t left; (left = free_at - now()) > 0;)
            if (left > SPIN)
                nanosleep(&(struct timespec){0, left - SPIN}, NULL);
        octets[2] |= 0x80;
        sendto(fd, octets, got, 0, (struct sockaddr *)&client, message.msg_namelen);
    }
}
