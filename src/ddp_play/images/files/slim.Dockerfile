# A rank image without torch: the distribution's Python. It is the base of the offline image, and enough for hosts
# whose ranks take their Python environment from the shared directory.
ARG ROOT
FROM ${ROOT}
ENV LC_ALL=C.UTF-8 PYTHONUNBUFFERED=1
RUN export DEBIAN_FRONTEND=noninteractive \
 && apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates iproute2 procps python3 \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* \
 && ln -s /usr/bin/python3 /usr/local/bin/python
WORKDIR /workspace
