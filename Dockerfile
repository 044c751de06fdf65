# LongFlash with the demo model inside.
#
#   docker build -t longflash .
#   docker run -p 8080:8080 longflash                                          the demo model
#   docker run -p 8080:8080 -v /my/model:/models longflash serve --model /models
#
# The same for NVIDIA GPUs (larger: it carries cuBLASLt):
#
#   docker build -t longflash:cuda --build-arg CUDA=13.0.0 .
#   docker run --gpus all -p 8080:8080 -v /my/model:/models longflash:cuda serve --model /models --device cuda:0
#
# Other bases do as well: CUDA_BUILD needs nvcc in /usr/local/cuda, CUDA_BASE cuBLASLt of the same version, in
# /usr/local/cuda/lib64 or where the loader looks; the two must be of one system. `longflash version` says the commit where
# it is told: --build-arg LF_COMMIT=$(git describe --always --dirty --abbrev=12 --exclude='*')
#
# With a volume for what is kept of documents (examples/compose.yaml says it in full):
#
#   docker run -p 8080:8080 -v documents:/var/cache/longflash -e LONGFLASH_CACHE_DIR=/var/cache/longflash longflash
#
# The server runs as nobody in particular and writes nothing else: it works with --read-only --cap-drop ALL. It listens on
# all addresses of the container without keys, for it is -p that decides who can reach it; where that is more than this
# machine, set keys: -e LONGFLASH_API_KEYS=… -e LONGFLASH_INSECURE_NO_AUTH=off
ARG BASE=debian:bookworm-slim
ARG CUDA=
ARG CUDA_BUILD=${CUDA:+nvidia/cuda:${CUDA}-devel-ubuntu24.04}
ARG CUDA_BASE=${CUDA:+nvidia/cuda:${CUDA}-runtime-ubuntu24.04}

FROM ${CUDA_BUILD:-${BASE}} AS build
ARG CUDA
RUN apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
    cmake g++ gcc libmicrohttpd-dev libpcre2-dev libprotobuf-dev libsentencepiece-dev make \
    nettle-dev pkg-config
WORKDIR /src
COPY CMakeLists.txt CMakePresets.json ./
COPY core core
COPY device device
COPY tokenizer tokenizer
COPY template template
COPY grammar grammar
COPY kv kv
COPY attention attention
COPY model model
COPY server server
ARG LF_COMMIT
RUN cmake --preset release -DBUILD_TESTING=OFF -DLF_CUDA="$([ -n "$CUDA" ] && echo ON || echo OFF)" \
    && cmake --build build/release --target longflash -j "$(nproc)" \
    && strip build/release/longflash

# The stars: Ubuntu 24.04 and Debian 13 have these libraries as libmicrohttpd12t64 and libnettle8t64.
FROM ${CUDA_BASE:-${BASE}}
RUN apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
    'libmicrohttpd12*' 'libnettle8*' libpcre2-8-0 libsentencepiece0 \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/*.log /var/log/apt
COPY --from=build /src/build/release/longflash /usr/local/bin/longflash
COPY demo/model /opt/longflash/demo
# For --cache-dir: a new volume that is mounted here is given to this user.
RUN install -d -m 700 -o 65532 -g 65532 /var/cache/longflash
ENV LONGFLASH_MODEL=/opt/longflash/demo \
    LONGFLASH_HOST=0.0.0.0 \
    LONGFLASH_INSECURE_NO_AUTH=on
USER 65532:65532
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=300s --retries=3 CMD ["longflash", "health"]
ENTRYPOINT ["longflash"]
CMD ["serve"]
