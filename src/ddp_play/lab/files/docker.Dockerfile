# The same host with the distribution's Docker engine.
ARG BARE
FROM ${BARE}
ARG ENGINE_PACKAGES
RUN export DEBIAN_FRONTEND=noninteractive \
 && apt-get update \
 && apt-get install -y --no-install-recommends ${ENGINE_PACKAGES} \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /usr/sbin/policy-rc.d \
 && touch --date=@0 /var/lib/apt/lists \
 && usermod -aG docker ops
