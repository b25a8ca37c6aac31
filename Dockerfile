# Boxcar in a container: `docker build -t boxcar . && docker run --rm boxcar simulate --model llama3-8b --cluster dgx-h100 --gpus 8 --tp 8`
FROM debian:12 AS build
COPY . /src
WORKDIR /src
RUN scripts/setup && cmake --preset release -DBOXCAR_TESTS=OFF && cmake --build --preset release \
    && cmake --install build --prefix /usr/local --strip

FROM debian:12
RUN apt-get update && apt-get install -y --no-install-recommends libsimgrid3.32 libfmt9 libyaml-cpp0.7 libjemalloc2 libsqlite3-0 libprotobuf-lite32 \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /usr/local /usr/local
ENTRYPOINT ["boxcar"]
