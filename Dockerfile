# Dayflow's worker, and the command with it: docker run … dayflow doctor
FROM python:3.11.13-slim-bookworm

ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1

RUN useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin dayflow \
    && install --directory --owner dayflow --group dayflow --mode 0700 /data

WORKDIR /app
COPY pyproject.toml constraints.txt README.md worker.py ./
COPY domain ./domain
COPY workflows ./workflows
COPY store ./store
COPY activities ./activities
COPY client ./client
COPY sandbox ./sandbox
RUN pip install --constraint constraints.txt .

USER dayflow
ENV DAYFLOW_HOME=/data
VOLUME /data
# Not the folder of the sources: what was installed is what runs.
WORKDIR /data
ENTRYPOINT ["dayflow"]
CMD ["worker"]
