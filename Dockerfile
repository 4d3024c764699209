# The image of Kaboost; how to run it: docs/deploy.md. Any Debian with Python 3.11 to 3.14 can be BASE.
ARG BASE=python:3.12.12-slim-bookworm

FROM ${BASE} AS build
# A certificate for the package index, if the build needs one: docs/deploy.md.
ARG PIP_CERT
WORKDIR /src
RUN python3 -m venv /tools \
    && python3 -m venv --without-pip /opt/kaboost
COPY requirements.lock requirements-dev.lock ./
# The shipped environment has neither pip nor setuptools: those of /tools install into it.
RUN --mount=type=secret,id=pip,target=/etc/pip.conf \
    --mount=type=secret,id=certificate \
    sed -n '/^setuptools==/,/[^\\]$/p' requirements-dev.lock > tools.lock \
    && /tools/bin/python -m pip install --no-cache-dir --require-hashes --requirement tools.lock \
    && /tools/bin/python -m pip --python /opt/kaboost/bin/python3 install --no-cache-dir --no-deps \
        --require-hashes --requirement requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY kaboost kaboost
COPY models models
COPY service service
COPY data data
RUN /tools/bin/python -m pip wheel --no-deps --no-build-isolation --no-index --wheel-dir /wheels . \
    && /tools/bin/python -m pip --python /opt/kaboost/bin/python3 install --no-deps --no-index /wheels/*.whl
COPY deploy/image/cpu.sh deploy/image/entrypoint.sh deploy/image/kernels.py \
    deploy/image/health.py /opt/kaboost/image/
RUN . /opt/kaboost/image/cpu.sh \
    && NUMBA_CACHE_DIR=/opt/kaboost/kernels /opt/kaboost/bin/python3 /opt/kaboost/image/kernels.py

FROM ${BASE}
LABEL org.opencontainers.image.title="kaboost" \
      org.opencontainers.image.description="An online gradient boosting service for Kafka" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/kaboost /opt/kaboost
RUN mkdir -p /data /etc/kaboost \
    && chown 10001:10001 /data
# In a container 127.0.0.1 is unreachable from outside. The default folders, data/..., are in /data.
ENV PATH=/opt/kaboost/bin:$PATH \
    KABOOST_CONFIG=/etc/kaboost/kaboost.yaml \
    KABOOST_API__HOST=0.0.0.0 \
    KABOOST_METRICS__HOST=0.0.0.0 \
    NUMBA_CACHE_DIR=/tmp/kaboost-kernels
WORKDIR /
VOLUME /data
EXPOSE 8000 9464
USER 10001:10001
HEALTHCHECK --interval=5s --timeout=3s --start-period=60s --retries=3 \
    CMD ["python3", "-I", "/opt/kaboost/image/health.py"]
ENTRYPOINT ["sh", "/opt/kaboost/image/entrypoint.sh"]
CMD ["serve"]
