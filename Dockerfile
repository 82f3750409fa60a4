# The image of hsdns: an interpreter of its own, hsdns compiled, and nothing besides.  No shell, no package manager.
#
#   docker build -t hsdns/hsdns:0.1.0 .
#   docker buildx build --platform linux/amd64,linux/arm64 -t hsdns/hsdns:0.1.0 .
#   buildah build -t hsdns/hsdns:0.1.0 .
#
# Other base images, for a mirror or an air-gapped machine: --build-arg PYTHON=... --build-arg RUST=...
# PYTHON is a Debian with a Python of 3.11 or newer, RUST has a toolchain under /usr/local.
ARG PYTHON=python:3.13-slim-bookworm
ARG RUST=rust:1-slim-bookworm

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
# First what changes seldom: the packages, pinned with their hashes.
COPY requirements/run.txt requirements/run.txt
RUN python -m pip install --require-hashes -r requirements/run.txt
COPY pyproject.toml MANIFEST.in README.md LICENSE ./
COPY native native
COPY hsdns hsdns
RUN python -m pip install --no-deps --no-build-isolation .
COPY deploy/image deploy/image
# From another folder, so that it is the installed hsdns; the import fails where the fast path was not compiled.
WORKDIR /
RUN python -c 'import hsdns.fastpath._native' \
 && python /source/deploy/image/assemble.py --final /image

FROM scratch
LABEL org.opencontainers.image.title="hsdns" \
      org.opencontainers.image.description="A DNS server for Kubernetes clusters, drop-in for CoreDNS in test clusters and kind" \
      org.opencontainers.image.licenses="Apache-2.0"
# Extended attributes are copied too: the interpreter keeps its capability for port 53.
COPY --from=build /image/ /
# In numbers, so that runAsNonRoot can tell that it is not root.
USER 65532:65532
WORKDIR /
EXPOSE 53 53/udp
ENTRYPOINT ["/coredns"]
