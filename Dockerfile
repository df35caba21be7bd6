# The scheduler's image:  scripts/build-images.sh, or  docker build --file Dockerfile .
#
# Any base with the same Python in both stages will do; the last stage needs no shell, no pip and no root.
ARG BASE=python:3.11-slim

FROM ${BASE} AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY herodotus_cli herodotus_cli
COPY herodotus_record herodotus_record
COPY herodotus_serving herodotus_serving
COPY scheduler scheduler
COPY herodotus_endpoint herodotus_endpoint
COPY herodotus_agents herodotus_agents
COPY herodotus_sim herodotus_sim
COPY deploy/servers deploy/servers
# versions are pinned in pyproject.toml and deploy/servers/pyproject.toml
RUN python -m venv /opt/herodotus \
    && /opt/herodotus/bin/python -m pip install --no-cache-dir --disable-pip-version-check . ./deploy/servers \
    && /opt/herodotus/bin/python -m pip uninstall --yes --disable-pip-version-check pip setuptools

FROM ${BASE}
LABEL org.opencontainers.image.title="herodotus-scheduler" \
      org.opencontainers.image.description="A kube-scheduler compatible scheduler that records every decision" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/herodotus /opt/herodotus
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
# python -m looks for modules here first: only the environment is in it
WORKDIR /opt/herodotus
ENTRYPOINT ["/opt/herodotus/bin/herodotus-scheduler"]
CMD ["--help"]
