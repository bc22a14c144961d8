# The packages of `image build --with`, on top of another image. pip is the image's own, or the wheel in wheelhouse/.
# They are installed in a stage of their own, so that no layer of the result has the wheels too.
ARG BASE
FROM ${BASE} AS installed
COPY wheelhouse /tmp/wheelhouse
RUN set -eu; \
    cd /tmp/wheelhouse; mkdir /installed; \
    if python3 -m pip --version >/dev/null 2>&1; then pip="-m pip"; else pip="$(ls ./pip-*.whl)/pip"; fi; \
    PIP_BREAK_SYSTEM_PACKAGES=1 python3 $pip install --no-cache-dir --no-compile --root-user-action ignore --no-index --no-deps \
      --root /installed --requirement requirements.txt; \
    python3 -m compileall -qq -j 0 -s /installed -p / /installed || true

FROM ${BASE}
COPY --from=installed /installed/ /
