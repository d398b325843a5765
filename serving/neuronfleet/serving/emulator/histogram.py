"""A histogram that takes many equal observations at once, for what happens once a token."""

import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence

from prometheus_client.core import HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector, CollectorRegistry


class BatchedHistogram(Collector):
    """One series of a histogram; prometheus_client's own has no weighted `observe`."""

    def __init__(
        self,
        name: str,
        documentation: str,
        labels: dict[str, str],
        buckets: Sequence[float],
        registry: CollectorRegistry,
    ) -> None:
        self._name = name
        self._documentation = documentation
        self._labels = labels
        self._bounds = list(buckets)
        self._counts = [0] * (len(self._bounds) + 1)
        self._sum = 0.0
        self._created = time.time()
        registry.register(self)

    def observe(self, value: float, times: int) -> None:
        """Count `value` as often as `times` says."""
        self._counts[bisect_left(self._bounds, value)] += times
        self._sum += value * times

    def collect(self) -> Iterator[Metric]:
        """The family as of now, with `_created` as the library's own histograms have it."""
        family = HistogramMetricFamily(self._name, self._documentation, labels=list(self._labels))
        total, buckets = 0, []
        for bound, count in zip([*self._bounds, float("inf")], self._counts, strict=True):
            total += count
            buckets.append(("+Inf" if bound == float("inf") else str(float(bound)), float(total)))
        family.add_metric(list(self._labels.values()), buckets, self._sum)
        family.add_sample(f"{self._name}_created", self._labels, self._created)
        yield family
