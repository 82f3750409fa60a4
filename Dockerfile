# The image of hsdns: a Python interpreter and hsdns with its compiled fast path.  No shell, no package manager.
#
#   docker build -t ghcr.io/hsdns/hsdns:0.2.0.dev0 .
#   docker buildx build --platform linux/amd64,linux/arm64 -t ghcr.io/hsdns/hsdns:0.2.0.dev0 .
#   buildah build -t ghcr.io/hsdns/hsdns:0.2.0.dev0 .
#
# Other base images, for a mirror or an air-gapped machine: --build-arg PYTHON=... --build-arg RUST=...
# An image that also reads kubeconfigs: --build-arg KUBECONFIG=yes
# PYTHON is a Debian image with Python 3.11 or newer; RUST has a toolchain under /usr/local.
# The digests are those of lists for several architectures, so that who moves a tag moves nothing here.
ARG PYTHON=python:3.13.14-slim-bookworm@sha256:67a1e1f215ccda113cfc024e8639049257e88f273898f595b61476d128d387e8
ARG RUST=rust:1.98.0-slim-bookworm@sha256:94e9efa4033213dbb70d4f665527e7ece3944ddb7ba1dd2e43f6fd6e2490af58

FROM ${RUST} AS rust

FROM ${PYTHON} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore \
    RUSTUP_HOME=/usr/local/rustup CARGO_HOME=/usr/local/cargo PATH=/build/bin:/usr/local/cargo/bin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
RUN apt-get update \
 && apt-get install -y --no-install-recommends binutils gcc libc6-dev libcap2-bin \
 && rm -rf /var/lib/apt/lists/*
COPY --from=rust /usr/local/rustup /usr/local/rustup
COPY --from=rust /usr/local/cargo /usr/local/cargo
RUN python3 -m venv /build
WORKDIR /source
# The layers that change seldom first: the packages, pinned with their hashes.
COPY requirements/run.txt requirements/extras.txt requirements/
RUN python -m pip install --require-hashes -r requirements/run.txt -r requirements/extras.txt
COPY pyproject.toml setup.py MANIFEST.in README.md LICENSE ./
COPY native native
COPY hsdns hsdns
RUN python -m pip install --no-deps --no-build-isolation .
COPY deploy/image deploy/image
ARG KUBECONFIG=no
# In another folder, to import the installed hsdns; the import fails if the fast path was not compiled.
WORKDIR /
RUN python -c 'import hsdns.fastpath._native' \
 && python /source/deploy/image/assemble.py --final --kubeconfig "$KUBECONFIG" /image

FROM scratch
LABEL org.opencontainers.image.title="hsdns" \
      org.opencontainers.image.description="A DNS server for Kubernetes clusters, drop-in for CoreDNS in test clusters and kind" \
      org.opencontainers.image.licenses="Apache-2.0"
# This also copies extended attributes, so the interpreter keeps its capability for port 53.
COPY --from=build /image/ /
# A numeric user, so that runAsNonRoot can be checked.
USER 65532:65532
WORKDIR /
# The default of `hsdns serve -listen`: the container's loopback interface could not be reached from outside.
ENV HSDNS_LISTEN=0.0.0.0
EXPOSE 53 53/udp
ENTRYPOINT ["/coredns"]
