/* Sends DNS queries over UDP at a steady rate and says how many were answered, and how fast.
 *
 *     asker PORT RATE SECONDS NAMES [SOURCE]
 *
 * NAMES is a file with a name and the number of a type on each line, taken in turn.  In a name, `*` stands for twelve
 * random letters and `#` for a random address with dashes, so that one line makes as many names as there are queries.
 * The queries go from SOCKETS ports of the address SOURCE to 127.0.0.1.  One line of JSON is printed at the end:
 * queries sent, replies within a second, those of them with SERVFAIL or REFUSED, and microseconds from query to reply: of
 * the answered ("p50_us", "p99_us", "worst_us"), and of all, with a second for a query that got no reply ("all_p99_us").
 *
 * Rule 1: the rate does not depend on the replies.  What could not be sent within 50 ms of its time is left out.
 * Rule 2: a reply after more than a second is none: the client has asked again.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SOCKETS 16
#define IDS 65536
#define SECOND 1000000000ull
#define MOST_LATE (SECOND / 20)
#define TIMEOUT SECOND
#define MOST_NAMES 65536
#define LONGEST 240
#define FINE 64 /* buckets for each power of two: percentiles are exact to 1.6 % */

static uint64_t sent_at[SOCKETS][IDS];
static uint64_t buckets[64 * FINE];
static struct {
    char text[LONGEST];
    unsigned type;
} names[MOST_NAMES];
static size_t name_count;
static uint64_t seed;

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static uint64_t now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * SECOND + at.tv_nsec;
}

static uint64_t random64(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

static size_t bucket_of(uint64_t value)
{
    if (value < FINE)
        return value;
    int shift = 63 - __builtin_clzll(value) - 6;
    return shift * FINE + (value >> shift);
}

static uint64_t top_of(size_t bucket)
{
    if (bucket < FINE)
        return bucket;
    int shift = bucket / FINE - 1;
    return ((bucket - (size_t)shift * FINE + 1) << shift) - 1;
}

static uint64_t percentile(uint64_t count, double share)
{
    uint64_t wanted = share * count, seen = 0;
    for (size_t i = 0; i < sizeof buckets / sizeof *buckets; i++) {
        seen += buckets[i];
        if (seen > wanted || (seen == count && count))
            return top_of(i);
    }
    return 0;
}

/* Write a query with ID 0 for a name of the file; return its length. */
static size_t write_query(unsigned char *out, size_t index)
{
    static const unsigned char header[12] = {0, 0, 1, 0, 0, 1};
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz234567";
    memcpy(out, header, 12);
    unsigned char *length = out + 12, *at = out + 13;
    for (const char *from = names[index].text; *from; from++) {
        uint64_t bits = random64();
        if (*from == '*') {
            for (int i = 0; i < 12; i++, bits >>= 5)
                *at++ = letters[bits & 31];
        } else if (*from == '#') {
            at += sprintf((char *)at, "10-%u-%u-%u", (unsigned)(bits >> 8 & 255), (unsigned)(bits >> 16 & 255),
                          (unsigned)(bits >> 24 & 255));
        } else if (*from == '.') {
            *length = at - length - 1;
            length = at++;
        } else {
            *at++ = *from;
        }
    }
    *length = at - length - 1;
    *at++ = 0;
    *at++ = names[index].type >> 8;
    *at++ = names[index].type;
    *at++ = 0;
    *at++ = 1;
    return at - out;
}

static void read_names(const char *path)
{
    FILE *file = fopen(path, "r");
    if (!file)
        fail("asker: cannot open the file of names");
    while (name_count < MOST_NAMES && fscanf(file, "%150s %u", names[name_count].text, &names[name_count].type) == 2)
        name_count++;
    fclose(file);
    if (!name_count) {
        fprintf(stderr, "asker: the file of names is empty\n");
        exit(2);
    }
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        fprintf(stderr, "asker: write: asker PORT RATE SECONDS NAMES [SOURCE]\n");
        return 2;
    }
    double rate = atof(argv[2]), seconds = atof(argv[3]);
    read_names(argv[4]);
    seed = now() ^ (uint64_t)getpid() << 32;
    struct pollfd polled[SOCKETS];
    struct sockaddr_in server = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1]))};
    struct sockaddr_in source = {.sin_family = AF_INET};
    server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    source.sin_addr.s_addr = inet_addr(argc > 5 ? argv[5] : "127.0.0.1");
    for (int i = 0; i < SOCKETS; i++) {
        int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0), room = 4 << 20;
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
        if (fd < 0 || bind(fd, (struct sockaddr *)&source, sizeof source) ||
            connect(fd, (struct sockaddr *)&server, sizeof server))
            fail("asker: cannot open a socket");
        polled[i] = (struct pollfd){.fd = fd, .events = POLLIN};
    }
    unsigned char message[65536];
    uint64_t began = now(), end = began + seconds * SECOND, turn = 0, sent = 0, answered = 0, failed = 0;
    uint64_t worst = 0, step = SECOND / rate, next = began;
    for (uint64_t at = began; at < end + TIMEOUT && (at < end || answered < sent); at = now()) {
        if (at > next + MOST_LATE)
            next = at;
        for (; next <= at && next < end; next += step, turn++) {
            int number = turn % SOCKETS;
            uint16_t id = turn / SOCKETS;
            size_t length = write_query(message, turn % name_count);
            message[0] = id >> 8;
            message[1] = id;
            sent_at[number][id] = at;
            sent++;
            if (send(polled[number].fd, message, length, 0) < 0)
                sent_at[number][id] = 0; /* nobody listens: sent, but never answered */
        }
        uint64_t wake = next < end ? next : end + TIMEOUT;
        at = now();
        struct timespec wait = {0, wake > at ? (wake - at > MOST_LATE ? MOST_LATE : wake - at) : 0};
        if (ppoll(polled, SOCKETS, &wait, NULL) <= 0)
            continue;
        for (int i = 0; i < SOCKETS; i++) {
            if (!polled[i].revents)
                continue;
            for (int taken = 0; taken < 64; taken++) {
                ssize_t got = recv(polled[i].fd, message, sizeof message, 0);
                if (got < 12)
                    break;
                uint64_t *asked = &sent_at[i][message[0] << 8 | message[1]], took = now() - *asked;
                if (!*asked || took > TIMEOUT)
                    continue;
                *asked = 0;
                answered++;
                int rcode = message[3] & 15;
                failed += rcode == 2 || rcode == 5;
                took /= 1000;
                buckets[bucket_of(took)]++;
                worst = took > worst ? took : worst;
            }
        }
    }
    uint64_t all_p99 = 0.99 * sent < answered ? percentile(answered, 0.99 * sent / answered) : TIMEOUT / 1000;
    printf("{\"offered\": %.0f, \"sent\": %lu, \"answered\": %lu, \"failed\": %lu, \"p50_us\": %lu, \"p99_us\": %lu, "
           "\"worst_us\": %lu, \"all_p99_us\": %lu}\n",
           rate * seconds, sent, answered, failed, percentile(answered, 0.5), percentile(answered, 0.99), worst,
           all_p99);
    return 0;
}
