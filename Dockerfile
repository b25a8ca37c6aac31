# Boxcar in a container: `docker build -t boxcar . && docker run --rm boxcar simulate --model llama3-8b --cluster dgx-h100 --gpus 8 --tp 8`
FROM debian:12 AS build
COPY . /src
WORKDIR /src
RUN scripts/setup && cmake --preset release -DBOXCAR_TESTS=OFF && cmake --build --preset release && cd build && cpack

# The package names the libraries that the program links.
FROM debian:12
COPY --from=build /src/build/boxcar_*.deb /tmp/
RUN apt-get update && apt-get install -y --no-install-recommends /tmp/boxcar_*.deb && rm -rf /var/lib/apt/lists/* /tmp/boxcar_*.deb
ENTRYPOINT ["boxcar"]
