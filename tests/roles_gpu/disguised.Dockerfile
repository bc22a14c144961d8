# A host of another distribution, for the package managers only: real dnf 4 and rpm, or real apt, on the lab's Debian.
# dnf's plugins are as on a new Enterprise Linux host: the versionlock plugin comes from a stub package, not with dnf.
ARG BASE
FROM ${BASE}
RUN apt-get update -qq \
    && DEBIAN_FRONTEND=noninteractive apt-get install -qqy --no-install-recommends \
       dnf dnf-plugins-core rpm createrepo-c gnupg openssl ca-certificates curl python3.11-venv >/dev/null \
    && rm -rf /var/lib/apt/lists/* \
    && sed -i 's/^enabled = true/enabled = false/' /etc/dnf/plugins/local.conf \
    && mkdir -p /opt/versionlock /etc/pki/rpm-gpg \
    && mv /usr/lib/python3/dist-packages/dnf-plugins/versionlock.py /etc/dnf/plugins/versionlock.conf /opt/versionlock
# Of Debian's package of plugins; on Enterprise Linux it comes with the versionlock plugin.
RUN rm -f /etc/dnf/plugins/versionlock.list
