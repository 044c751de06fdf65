# LongFlash with the demo model inside.
#
#   docker build -t longflash .
#   docker run -p 8080:8080 longflash                                          the demo model
#   docker run -p 8080:8080 -v /my/model:/models longflash serve --model /models
#
# The same for NVIDIA GPUs (larger: it carries cuBLASLt):
#
#   docker build -t longflash:cuda --target cuda .
#   docker run --gpus all -p 8080:8080 -v /my/model:/models longflash:cuda serve --model /models --device cuda:0
#
# The server runs as nobody in particular and writes nothing: it works with --read-only --cap-drop ALL. It listens on
# all addresses of the container without keys, for it is -p that decides who can reach it; where that is more than this
# machine, set keys: -e LONGFLASH_API_KEYS=… -e LONGFLASH_INSECURE_NO_AUTH=off
ARG BASE=debian:bookworm-slim
ARG CUDA_BUILD=nvidia/cuda:13.0.0-devel-ubuntu24.04
ARG CUDA_BASE=nvidia/cuda:13.0.0-runtime-ubuntu24.04

FROM ${BASE} AS build
RUN apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
    cmake g++ gcc libmicrohttpd-dev libpcre2-dev libsentencepiece-dev make pkg-config
WORKDIR /src
COPY CMakeLists.txt CMakePresets.json ./
COPY core core
COPY device device
COPY tokenizer tokenizer
COPY kv kv
COPY attention attention
COPY model model
COPY server server
RUN cmake --preset release -DBUILD_TESTING=OFF \
    && cmake --build build/release --target longflash -j "$(nproc)" \
    && strip build/release/longflash

FROM ${CUDA_BUILD} AS build-cuda
RUN apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
    cmake g++ gcc libmicrohttpd-dev libpcre2-dev libsentencepiece-dev make pkg-config
WORKDIR /src
COPY --from=build /src .
RUN rm -rf build && cmake --preset release -DBUILD_TESTING=OFF -DLF_CUDA=ON \
    && cmake --build build/release --target longflash -j "$(nproc)" \
    && strip build/release/longflash

FROM ${CUDA_BASE} AS cuda
RUN apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
    'libmicrohttpd12*' libpcre2-8-0 libsentencepiece0 \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/*.log /var/log/apt
COPY --from=build-cuda /src/build/release/longflash /usr/local/bin/longflash
COPY demo/model /opt/longflash/demo
ENV LONGFLASH_MODEL=/opt/longflash/demo \
    LONGFLASH_HOST=0.0.0.0 \
    LONGFLASH_INSECURE_NO_AUTH=on
USER 65532:65532
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=300s --retries=3 CMD ["longflash", "health"]
ENTRYPOINT ["longflash"]
CMD ["serve"]

FROM ${BASE}
RUN apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
    libmicrohttpd12 libpcre2-8-0 libsentencepiece0 \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/*.log /var/log/apt
COPY --from=build /src/build/release/longflash /usr/local/bin/longflash
COPY demo/model /opt/longflash/demo
ENV LONGFLASH_MODEL=/opt/longflash/demo \
    LONGFLASH_HOST=0.0.0.0 \
    LONGFLASH_INSECURE_NO_AUTH=on
USER 65532:65532
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=300s --retries=3 CMD ["longflash", "health"]
ENTRYPOINT ["longflash"]
CMD ["serve"]
