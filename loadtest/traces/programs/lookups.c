/* Lookups of a libc: getaddrinfo, getnameinfo, res_search; KIND NAME TIMES SECONDS */
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <arpa/nameser.h>
#include <resolv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void host(const char *name) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found, *each;
    int error = getaddrinfo(name, "80", &hints, &found);
    if (error) {
        printf("error %s\n", gai_strerror(error));
        return;
    }
    printf("ok");
    for (each = found; each; each = each->ai_next) {
        char text[64];
        getnameinfo(each->ai_addr, each->ai_addrlen, text, sizeof text, NULL, 0, NI_NUMERICHOST);
        printf(" %s", text);
    }
    printf("\n");
}

static void ptr(const char *address) {
    struct sockaddr_in6 six = {.sin6_family = AF_INET6};
    struct sockaddr_in four = {.sin_family = AF_INET};
    char text[1024];
    int is_six = strchr(address, ':') != NULL, error;
    inet_pton(is_six ? AF_INET6 : AF_INET, address, is_six ? (void *)&six.sin6_addr : (void *)&four.sin_addr);
    error = getnameinfo(is_six ? (struct sockaddr *)&six : (struct sockaddr *)&four,
                        is_six ? sizeof six : sizeof four, text, sizeof text, NULL, 0, NI_NAMEREQD);
    if (error)
        printf("error %s\n", gai_strerror(error));
    else
        printf("ok %s\n", text);
}

static void search(const char *kind, const char *name) {
    unsigned char answer[65536];
    int size = res_search(name, 1, kind[0] == 's' ? 33 : 16, answer, sizeof answer);
    if (size < 0)
        printf("error h_errno %d\n", h_errno);
    else
        printf("ok %d records\n", answer[6] << 8 | answer[7]);
}

int main(int count, char **words) {
    int number, times = atoi(words[3]);
    for (number = 0; number < times; number++) {
        if (number)
            usleep((unsigned)(atof(words[4]) * 1e6));
        printf("begin\n");
        fflush(stdout);
        getchar();
        if (words[1][0] == 'h')
            host(words[2]);
        else if (words[1][0] == 'p')
            ptr(words[2]);
        else
            search(words[1], words[2]);
        fflush(stdout);
    }
    return count < 5;
}
