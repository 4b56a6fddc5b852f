# docker build -t qmgrd . && docker run --name qmgrd -v qmgrd:/var/lib/qmgrd qmgrd
# Programs in the container may connect: docker exec qmgrd qmctl status. To serve other machines, see
# config/examples/container.toml.
# The volume must be on a local file system, because LMDB maps its file into memory. The root may be
# read-only (--read-only): the daemon writes only to the volume.
ARG PYTHON=3.11

FROM python:${PYTHON}-slim AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
# Both stages use the same path, because a virtual environment cannot be moved.
RUN python -m venv /opt/qmgrd
WORKDIR /src
# The lock file is copied before the source, so a change of the source does not reinstall the
# requirements.
COPY requirements-runtime.lock ./
RUN /opt/qmgrd/bin/pip install --require-hashes -r requirements-runtime.lock
COPY . ./
RUN /opt/qmgrd/bin/pip install --no-deps . \
    && /opt/qmgrd/bin/pip check \
    && /opt/qmgrd/bin/pip uninstall --yes pip setuptools

FROM python:${PYTHON}-slim
LABEL org.opencontainers.image.title="qmgrd" \
      org.opencontainers.image.description="A small queue manager: persistent queues, links, tables for Spark" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.base.name="docker.io/library/python:3.11-slim"
ENV PATH=/opt/qmgrd/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
RUN groupadd --gid 7470 qmgrd \
    && useradd --uid 7470 --gid 7470 --home-dir /var/lib/qmgrd --shell /usr/sbin/nologin qmgrd \
    && install -d -o qmgrd -g qmgrd -m 0700 /var/lib/qmgrd
COPY --from=build /opt/qmgrd /opt/qmgrd
COPY config/examples/container.toml /etc/qmgrd/qmgrd.toml
USER 7470:7470
VOLUME /var/lib/qmgrd
EXPOSE 7471
STOPSIGNAL SIGTERM
# Over the unix socket, the daemon's user needs no password.
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s CMD ["qmctl", "--data-dir", "/var/lib/qmgrd", "status"]
ENTRYPOINT ["qmgrd", "--config", "/etc/qmgrd/qmgrd.toml"]
