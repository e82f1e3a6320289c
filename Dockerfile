# The command in a container:
#   docker build -t rapidbm .
#   docker run --rm -v "$PWD:/data" rapidbm sample pretrained:mnist
# That has torch's CUDA build, for `docker run --gpus all`. Without a GPU its smaller CPU build is enough; take it from the
# index that PyTorch's page on installing names:
#   docker build -t rapidbm --build-arg TORCH_INDEX=… .
# Files in /data belong to the user 1000 unless `docker run --user "$(id -u):$(id -g)"` says otherwise.
ARG PYTHON=3.12

FROM python:${PYTHON}-slim AS build
WORKDIR /source
COPY constraints.txt ./
RUN pip install --no-cache-dir --constraint constraints.txt build hatchling
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN python -m build --no-isolation --wheel --outdir /wheels

FROM python:${PYTHON}-slim
ARG TORCH_INDEX=
COPY constraints.txt /wheels/
RUN pip install --no-cache-dir --constraint /wheels/constraints.txt ${TORCH_INDEX:+--index-url "${TORCH_INDEX}"} torch
COPY --from=build /wheels/*.whl /wheels/
RUN pip install --no-cache-dir --constraint /wheels/constraints.txt /wheels/*.whl \
    && rm -r /wheels \
    && useradd --uid 1000 --create-home rapidbm \
    && install --directory --owner rapidbm /data
USER 1000
WORKDIR /data
# Caches where any user may write: `docker run --user` comes with no home.
ENV MPLCONFIGDIR=/tmp/matplotlib XDG_CACHE_HOME=/tmp/cache
ENTRYPOINT ["rapidbm"]
CMD ["--help"]
