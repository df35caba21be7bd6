# The images, one target each:  scripts/build-images.sh, or  docker build --target scheduler .
#
# Any base will do that has a Python of 3.11 or later as `python`, with venv, and runs manylinux wheels; what runs needs
# no shell, no pip, no root and no writable root. The steps are the same on every platform: there is nothing to compile.
ARG BASE=python:3.11-slim

FROM ${BASE} AS build
WORKDIR /src
COPY packages/lock.txt packages/locked.sh packages/
RUN python -m venv /build \
    && packages/locked.sh build > /build/build.txt \
    && /build/bin/python -m pip install --no-cache-dir --only-binary :all: --require-hashes --requirement /build/build.txt
COPY pyproject.toml README.md LICENSE ./
COPY herodotus_cli herodotus_cli
COPY herodotus_client herodotus_client
COPY herodotus_answers herodotus_answers
COPY herodotus_record herodotus_record
COPY herodotus_kube herodotus_kube
COPY herodotus_serving herodotus_serving
COPY scheduler scheduler
COPY herodotus_endpoint herodotus_endpoint
COPY herodotus_agents herodotus_agents
COPY herodotus_local herodotus_local
COPY herodotus_sim herodotus_sim
COPY packages/servers packages/servers
COPY packages/images packages/images
RUN /build/bin/python -m hatchling build --target wheel --directory /wheels
WORKDIR /src/packages/servers
RUN /build/bin/python -m hatchling build --target wheel --directory /wheels
WORKDIR /src

FROM build AS endpoint-environment
# otlp also has what --otlp-endpoint needs, archive that and what the archive needs
ARG INSTALLATION=endpoint
RUN packages/images/install.sh ${INSTALLATION}

FROM build AS agents-environment
RUN packages/images/install.sh agents

FROM build AS scheduler-environment
RUN packages/images/install.sh scheduler

FROM ${BASE} AS runtime
ARG BASE
ARG VERSION
ARG REVISION
LABEL org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="https://github.com/herodotus-scheduler/herodotus" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.base.name="${BASE}"
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
# python -m looks for modules here first: only the environment is in it
WORKDIR /opt/herodotus

FROM runtime AS endpoint
COPY --from=endpoint-environment /opt/herodotus /opt/herodotus
LABEL org.opencontainers.image.title="herodotus-endpoint" \
      org.opencontainers.image.description="Stores scheduling decisions and answers questions about them"
ENTRYPOINT ["/opt/herodotus/bin/herodotus-endpoint"]
CMD ["--help"]

FROM runtime AS agents
COPY --from=agents-environment /opt/herodotus /opt/herodotus
LABEL org.opencontainers.image.title="herodotus-agents" \
      org.opencontainers.image.description="Scheduler extenders, and what measures nodes for them"
ENTRYPOINT ["/opt/herodotus/bin/herodotus-agents"]
CMD ["--help"]

FROM runtime AS scheduler
COPY --from=scheduler-environment /opt/herodotus /opt/herodotus
LABEL org.opencontainers.image.title="herodotus-scheduler" \
      org.opencontainers.image.description="A kube-scheduler compatible scheduler that records every decision"
ENTRYPOINT ["/opt/herodotus/bin/herodotus-scheduler"]
CMD ["--help"]
