#!/bin/sh
# Build, sign and index the stub packages: build_rpms.sh SPECS TARGET. Runs on the disguised host.
set -eu
specs=$1 target=$2
mkdir -p "$target"
cat > /root/.rpmmacros <<M
%_gpg_name right@example.invalid
%__gpg /usr/bin/gpg
%__gpg_sign_cmd %{__gpg} gpg --batch --no-armor --pinentry-mode loopback --passphrase '' -u %{_gpg_name} -sbo %{__signature_filename} --digest-algo sha256 %{__plaintext_filename}
M
for pass in "$specs"/pass*; do
  mkdir -p "$pass/tree/usr/lib/python3/dist-packages/dnf-plugins" "$pass/tree/etc/dnf/plugins"
  cp /opt/versionlock/versionlock.py "$pass/tree/usr/lib/python3/dist-packages/dnf-plugins/"
  cp /opt/versionlock/versionlock.conf "$pass/tree/etc/dnf/plugins/"
  : > "$pass/tree/etc/dnf/plugins/versionlock.list"
  rpmbuild -bb --quiet --nodeps --define "_rpmdir $target" --define '_rpmfilename %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm' \
    --define '_unpackaged_files_terminate_build 0' --define "_topdir $pass" "$pass/stubs.spec"
done
gpg --list-keys right@example.invalid >/dev/null 2>&1 \
  || gpg --batch --pinentry-mode loopback --passphrase '' --quick-gen-key right@example.invalid rsa2048 sign never
rpmsign --addsign "$target"/*.rpm >/dev/null
createrepo_c --quiet "$target"
gpg --batch --yes --pinentry-mode loopback --passphrase '' --armor --detach-sign "$target/repodata/repomd.xml"
