"""The Open Inference Protocol v2: what clients of Triton, KServe and MLServer speak."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec
from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from kaboost.service.config.settings import Settings
from kaboost.service.errors import NotReady, RequestError
from kaboost.service.events.diagnosis import shorten, show
from kaboost.service.http import problems, tensors
from kaboost.service.http.body import CHECKS, read_body
from kaboost.service.http.follower import Served
from kaboost.service.metrics import ApiMetrics, program_version

HEADER_LENGTH = "inference-header-content-length"
SERVER = {"name": "kaboost", "extensions": ["binary_tensor_data"]}
# Not the check of the media type: binary requests are application/octet-stream.
LIMITS = {name: check for name, check in CHECKS.items() if name != b"content-type"}
MAX_DIGITS = 20  # of a length
MOST_AT_ONCE = 2  # requests: each takes up to 250 MB
CHUNK_VALUES = 100_000  # that are instances at one time: each takes ten times a byte of a tensor
Current = Callable[[], Awaitable[Served]]
Handler = Callable[[Request], Awaitable[Response]]


class OpenInference:
    """The handlers of the protocol's routes."""

    def __init__(
        self, settings: Settings, ready: Current, current: Current, metrics: ApiMetrics
    ) -> None:
        self._name = settings.name
        self._limits = settings.api
        self._ready = ready  # refuses where a service drains, too
        self._current = current
        self._metrics = metrics
        self._inferring = asyncio.Semaphore(MOST_AT_ONCE)

    async def server(self, _request: Request) -> Response:
        """Describe the server."""
        return _respond(SERVER | {"version": program_version()})

    async def live(self, _request: Request) -> Response:
        """Report that the process responds."""
        return _respond({"live": True})

    async def ready(self, _request: Request) -> Response:
        """Report whether the model is served."""
        await self._ready()
        return _respond({"ready": True})

    async def model_ready(self, request: Request) -> Response:
        """Report whether this model, and this version of it, is served."""
        self._check(request, await self._ready())
        return _respond({"name": self._name, "ready": True})

    async def metadata(self, request: Request) -> Response:
        """Describe the inputs, which are the features, and the outputs."""
        served = await self._current()
        self._check(request, served)
        model = served.snapshot.model
        kind, labels = model.labels.kind, list(model.labels.classes)
        inputs = [
            {"name": name, "datatype": tensors.datatype_of(word), "shape": [-1]}
            for name, word in model.encoder.kinds.items()
        ]
        outputs = [("prediction", tensors.label_type(labels, kind), [-1]), ("score", "FP64", [-1])]
        if kind != "regression":
            outputs.append(("probability", "FP64", [-1]))
            outputs.append(("probabilities", "FP64", [-1, len(labels)]))
        named = [dict(zip(("name", "datatype", "shape"), each, strict=True)) for each in outputs]
        versions = [str(served.stamp.version)]
        head = {"name": self._name, "versions": versions, "platform": "kaboost"}
        return _respond(head | {"inputs": inputs, "outputs": named})

    async def infer(self, request: Request) -> Response:
        """Predict rows; in a thread, as decoding columns takes longer than a row does."""
        body = bytes(await read_body(request.scope, request.receive, self._limits, LIMITS))
        served = await self._current()
        self._check(request, served)
        length = request.headers.get(HEADER_LENGTH)
        async with self._inferring:
            return await asyncio.to_thread(self._infer, served, body, length)

    def _infer(self, served: Served, body: bytes, length: str | None) -> Response:
        asked, binary = _read(body, length)
        codec = served.codec
        known = None if codec.ignores_unknown else codec.feature_names
        rows = tensors.check_inputs(asked.inputs, known, codec.max_rows)
        wanted = _wanted(asked)
        columns = tensors.read_columns(asked.inputs, binary)
        ignored = columns.keys() - set(codec.feature_names)
        columns = {name: values for name, values in columns.items() if name not in ignored}
        predictions: list[dict[str, Any]] = []
        version = served.stamp.version
        step = max(1, CHUNK_VALUES // max(1, len(columns)))
        for start in range(0, rows, step):
            answer = _predict(served, columns, start, min(rows, start + step))
            predictions += answer["predictions"]
            version = answer["model"]["version"]  # a River model learns between parts
        self._metrics.predictions.inc(rows)
        self._metrics.features_ignored.inc(len(ignored) * rows)
        labels = served.snapshot.model.labels
        made = tensors.outputs_of(predictions, list(labels.classes), labels.kind)
        head = {"model_name": self._name, "model_version": str(version)}
        return _encode(head | ({"id": asked.id} if asked.id else {}), made, asked, wanted)

    def _check(self, request: Request, served: Served) -> None:
        """Refuse another model, and a version that is not served."""
        name, version = request.path_params["model"], request.path_params.get("version")
        if name != self._name:
            raise HTTPException(404, f"there is no model {name!r}; this one is {self._name!r}")
        if version not in (None, str(served.stamp.version)):
            now = served.stamp.version
            raise HTTPException(404, f"version {version} is not served, but {now}; leave it out")


def _predict(
    served: Served, columns: Mapping[str, Sequence[Any]], start: int, end: int
) -> dict[str, Any]:
    """Predict some rows, as instances of `/predict`, and return its answer."""
    instances = [
        {"features": {name: values[row] for name, values in columns.items()}}
        for row in range(start, end)
    ]
    try:
        read = served.codec.read(msgspec.json.encode({"instances": instances}))
    except RequestError as err:
        raise RequestError([(_place(at, start), why) for at, why in err.errors]) from err
    answer = served.codec.respond(read, served.snapshot.model, served.stamp)
    found: dict[str, Any] = msgspec.json.decode(answer.body)
    return found


def _read(body: bytes, length: str | None) -> tuple[tensors.Request, bytes]:
    """Split a body into its JSON and the binary tensors after it."""
    end = len(body)
    if length is not None:
        # Of thousands of digits int() makes no number.
        is_number = length.isdecimal() and len(length) <= MAX_DIGITS
        if not is_number or int(length) > len(body):
            shown = length[:MAX_DIGITS]
            detail = f"Inference-Header-Content-Length {shown!r}: the body has {len(body)} bytes"
            raise HTTPException(400, detail)
        end = int(length)
    try:
        return msgspec.json.decode(body[:end], type=tensors.Request), body[end:]
    except msgspec.ValidationError as err:
        raise RequestError([("#", str(err))]) from err
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as err:
        raise HTTPException(400, f"the body is not JSON: {err}") from err


def _place(pointer: str, start: int) -> str:
    """Name an input and a row, where a pointer leads to a feature of an instance; `start` is the
    row of the first one.
    """
    parts = pointer.split("/")
    if len(parts) == 5 and parts[1] == "instances":
        return f"input {parts[4]}, row {start + int(parts[2])}"
    return pointer


def _wanted(asked: tensors.Request) -> Sequence[tensors.Wanted]:
    """Return the outputs that are wanted, or refuse one that comes twice."""
    names: set[str] = set()
    for k, each in enumerate(asked.outputs or ()):
        if each.name in names:
            detail = f"{shorten(each.name)} comes twice; ask for it once"
            raise RequestError([(f"#/outputs/{k}/name", detail)])
        names.add(each.name)
    return asked.outputs or ()


def _encode(
    head: dict[str, Any],
    made: Sequence[tensors.Output],
    asked: tensors.Request,
    wanted: Sequence[tensors.Wanted],
) -> Response:
    """Write the outputs that are wanted, binary ones after the JSON."""
    by_name = {output.name: output for output in made}
    outputs: list[tensors.Output] = []
    blobs = []
    for k, each in enumerate(wanted or [tensors.Wanted(name) for name in by_name]):
        if each.name not in by_name:
            detail = f"there is no output {show(each.name)}; there are {', '.join(by_name)}"
            raise RequestError([(f"#/outputs/{k}/name", detail)])
        output, choice = by_name[each.name], each.parameters.binary_data
        if asked.parameters.binary_data_output if choice is None else choice:
            blob = tensors.pack(output.datatype, output.data or [])
            blobs.append(blob)
            output.data, output.parameters = None, {"binary_data_size": len(blob)}
        outputs.append(output)
    text = msgspec.json.encode(head | {"outputs": outputs})
    if not blobs:
        return Response(text, media_type="application/json")
    headers = {HEADER_LENGTH: str(len(text))}
    return Response(text + b"".join(blobs), 200, headers, "application/octet-stream")


def _respond(content: dict[str, Any]) -> Response:
    return Response(msgspec.json.encode(content), media_type="application/json")


def _guarded(handler: Handler) -> Handler:
    """Make the errors of a handler those of the protocol: an object with `error`."""

    async def guarded(request: Request) -> Response:
        try:
            return await handler(request)
        except (HTTPException, NotReady, RequestError) as err:
            return problems.problem(err, request.url.path)
        except ClientDisconnect:
            return Response(status_code=400)

    return guarded


def add_open_inference(app: FastAPI, made: OpenInference) -> None:
    """Add the routes of the protocol."""
    routes: list[tuple[str, Handler]] = [
        ("/v2", made.server),
        ("/v2/health/live", made.live),
        ("/v2/health/ready", made.ready),
    ]
    for model in ("/v2/models/{model}", "/v2/models/{model}/versions/{version}"):
        routes += [(model, made.metadata), (f"{model}/ready", made.model_ready)]
        infer = Route(f"{model}/infer", _guarded(made.infer), methods=["POST"])
        app.router.routes.append(infer)
    for path, handler in routes:
        app.router.routes.append(Route(path, _guarded(handler), methods=["GET"]))
