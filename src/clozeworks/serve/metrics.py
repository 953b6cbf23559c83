"""What a server measures of itself, as Prometheus reads it."""

import time
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from clozeworks.serve.scheduler import Scheduler
from clozeworks.serve.work import Work

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class ServerMetrics:
    """Counts requests, and reads the scheduler when it is asked."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.registry = CollectorRegistry()
        self._scheduler = scheduler
        self.in_flight = 0
        self.requests = Counter(
            "clozeworks_requests", "Requests that were answered.", ["path", "status"],
            registry=self.registry,
        )  # fmt: skip
        self.stages = Histogram(
            "clozeworks_stage_seconds", "Seconds that requests spent in each stage.", ["stage"],
            buckets=_SECONDS, registry=self.registry,
        )  # fmt: skip
        self.tokens = Counter(
            "clozeworks_tokens", "Tokens that were read and written.", ["direction"],
            registry=self.registry,
        )  # fmt: skip
        self.registry.register(self)

    def collect(self) -> list[Metric]:
        """What the scheduler is at."""
        scheduler = self._scheduler
        gauges = {
            "clozeworks_in_flight": ("Requests that are being answered.", self.in_flight),
            "clozeworks_queue_inputs": ("Inputs that wait.", scheduler.waiting),
            "clozeworks_tokens_in_hand": ("Tokens of work in hand.", scheduler.tokens),
            "clozeworks_growing_texts": ("Texts that are being written.", scheduler.growing),
        }
        counters = {
            "clozeworks_batches": ("Batches that were computed.", scheduler.batches),
            "clozeworks_batch_tokens": ("Tokens of these batches.", scheduler.computed_tokens),
            "clozeworks_steps": ("Steps of growing texts.", scheduler.steps),
        }
        return [
            *(GaugeMetricFamily(name, text, value) for name, (text, value) in gauges.items()),
            *(CounterMetricFamily(name, text, value) for name, (text, value) in counters.items()),
        ]

    def count(self, path: str, status: int, work: Work, seconds: float) -> None:
        """A request was answered."""
        self.requests.labels(path, str(status)).inc()
        timings = work.timings
        for stage, spent in (
            ("tokenization", timings.tokenization),
            ("queue", timings.queue),
            ("inference", timings.inference),
            ("total", seconds),
        ):
            self.stages.labels(stage).observe(spent)
        self.tokens.labels("read").inc(work.tokens)
        self.tokens.labels("written").inc(work.written)

    def record(self) -> dict[str, Any]:
        """Everything as plain data; counts are those since the server began."""
        scheduler = self._scheduler
        stages: dict[str, dict[str, Any]] = {}
        for sample in _samples(self.stages):
            stage = stages.setdefault(sample.labels["stage"], {"below": []})
            if sample.name.endswith("_bucket"):
                bound = sample.labels["le"]
                stage["below"].append([None if bound == "+Inf" else float(bound), sample.value])
            elif sample.name.endswith(("_sum", "_count")):
                stage[sample.name.rpartition("_")[2]] = sample.value
        return {
            "seconds": time.monotonic(),
            "requests": [
                {**sample.labels, "count": sample.value}
                for sample in _samples(self.requests)
                if sample.name.endswith("_total")
            ],
            "stages": stages,
            "tokens": {
                sample.labels["direction"]: sample.value
                for sample in _samples(self.tokens)
                if sample.name.endswith("_total")
            },
            "in_flight": self.in_flight,
            "queue_inputs": scheduler.waiting,
            "tokens_in_hand": scheduler.tokens,
            "most_tokens": scheduler.most_tokens,
            "growing_texts": scheduler.growing,
            "batches": scheduler.batches,
            "batch_tokens": scheduler.computed_tokens,
            "most_batch_tokens": scheduler.batch_tokens,
            "steps": scheduler.steps,
        }

    def text(self) -> bytes:
        """Everything, as Prometheus reads it."""
        return generate_latest(self.registry)


def _samples(metric: Counter | Histogram) -> list[Any]:
    return [sample for family in metric.collect() for sample in family.samples]
