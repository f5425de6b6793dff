# A model over HTTP, on the CPU and without torch. Beside this file: the folder `model`, written by
# `spansieve export runs/mine/model model`. Then `docker build -t entities .`; docs/shipping.md has the whole way.
FROM python:3.12-slim

ENV PYTHONUNBUFFERED=1 \
    NUMBA_CACHE_DIR=/var/cache/numba

# All that an export needs to be served; `--no-deps` leaves torch out.
RUN pip install --no-cache-dir numpy numba tokenizers onnxruntime typer rich fastapi uvicorn prometheus-client
ARG SPANSIEVE=spansieve
RUN pip install --no-cache-dir --no-deps "$SPANSIEVE"

RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin spansieve \
    && install --directory --owner=spansieve /var/cache/numba
COPY --chown=10001 model /model
USER 10001

# Compiles the kernels, so that a container is ready at once; a model that cannot be used fails here.
RUN spansieve predict /model "Ada Lovelace met Charles Babbage in London."

EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/readyz', timeout=2)"]
CMD ["spansieve", "serve", "/model", "--host", "0.0.0.0"]
