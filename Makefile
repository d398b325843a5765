# Two commands do everything on a fresh Debian machine: `make up` and `make test`.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
PY := .venv/bin/python
INFRA := PATH="$(CURDIR)/node_modules/.bin:$$PATH" .venv-infra/bin/python
PATHS := images infra kernels monitoring serving tests benchmarks tools

.PHONY: up test check lint test-engine engine test-infra infra test-cluster cluster cluster-down bench bench-cluster
.PHONY: format lock fit rules crd chart clean help

CLUSTER_PACKAGES := haproxy prometheus buildah debootstrap containerd runc conntrack iptables openssl \
  ip:iproute2 /usr/lib/cni/bridge:containernetworking-plugins

help: ## Show this list.
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

up: .venv/.ready ## Bring up the demo fleet: gateway, Prometheus, control loop, replicas, page.
	@tools/setup.sh packages haproxy prometheus
	.venv/bin/neuronfleet up examples/demo.yaml

test: .venv/.ready ## Lint, types, contracts and every test but those of the engine.
	@tools/setup.sh packages haproxy prometheus chromium
	@$(MAKE) --no-print-directory lint
	$(PY) -m pytest -m "not engine and not cluster" --ignore tests/infra

check: .venv/.ready lint ## Lint, types, contracts and the quick tests: under 2 minutes.
	$(PY) -m pytest -m "not engine and not peer and not cluster" --ignore tests/infra

lint: .venv/.ready ## ruff, mypy (strict) and the import contracts.
	.venv/bin/ruff check $(PATHS)
	.venv/bin/ruff format --check $(PATHS)
	.venv/bin/mypy
	.venv/bin/lint-imports

test-engine: .venv/.ready engine ## The tests that run real vLLM on CPU.
	@tools/setup.sh packages haproxy prometheus
	$(PY) -m pytest -m engine tests/engine --timeout 900

engine: .venv/.ready ## Build the engine environment (torch and vLLM, 6.3 GB), once a lock.
	$(PY) -m neuronfleet.serving.local.engine_env

cluster: .venv/.ready ## Build (once, 10 minutes) and start a whole Kubernetes on this machine. Wants root and Go.
	@tools/setup.sh packages $(CLUSTER_PACKAGES)
	$(PY) -m tests.cluster up

cluster-down: .venv/.ready ## Stop it; nothing of it is left.
	$(PY) -m tests.cluster down

test-infra: infra ## Synthesis, its refusals and the strict deploy of the infrastructure.
	$(INFRA) -m mypy --config-file infra/mypy.ini
	$(INFRA) -m pytest tests/infra --timeout 300

infra: .venv-infra/.ready node_modules/.package-lock.json ## Build the infrastructure's environment: CDK, its CLI and Node.

test-cluster: .venv/.ready ## The tests on a real Kubernetes: that of this machine, or NEURONFLEET_KUBECONFIG's.
	@tools/setup.sh packages $(CLUSTER_PACKAGES)
	$(PY) -m tests.cluster build
	$(PY) -m pytest -m cluster --ignore tests/infra --timeout 600

bench-cluster: .venv/.ready ## The long bars on the cluster: 1,000 fleets, 100 scale-ins.
	@tools/setup.sh packages $(CLUSTER_PACKAGES)
	$(PY) benchmarks/run.py cluster

bench: .venv/.ready ## The measured bars: emulator, gateway, streams. Wants an idle machine.
	@tools/setup.sh packages haproxy prometheus
	$(PY) benchmarks/run.py

format: .venv/.ready ## Format, and mend what ruff can.
	.venv/bin/ruff check --fix $(PATHS)
	.venv/bin/ruff format $(PATHS)

lock: .venv/.ready ## Resolve both locks anew.
	.venv/bin/uv pip compile -q --generate-hashes --no-header --python-version 3.11 \
	  --extra dev --extra controller --extra kernels pyproject.toml -o requirements/dev.lock
	.venv/bin/uv pip compile -q --generate-hashes --no-header --python-version 3.11 \
	  --extra infra --extra dev-infra pyproject.toml -o requirements/infra.lock
	.venv/bin/uv pip compile -q --generate-hashes --no-header --python-version 3.11 \
	  --extra controller pyproject.toml -o requirements/controller.lock
	.venv/bin/uv pip compile -q --generate-hashes --no-header --python-version 3.11 \
	  --override requirements/engine-overrides.txt requirements/engine.in \
	  -o serving/neuronfleet/serving/local/engine.lock

fit: .venv/.ready ## Fit the timing models to the product's own evidence.
	$(PY) tools/refit_timings.py

crd: .venv/.ready ## Write the CRD.
	$(PY) tools/build_crd.py
	@$(MAKE) --no-print-directory chart

chart: .venv/.ready ## Copy CRD and rules into the chart, and write its table of values.
	cp serving/crds/servingfleets.neuronfleet.dev.yaml monitoring/rules/fleet.yml serving/chart/files/
	$(PY) -m tests.serving.chart.values_table

rules: .venv/.ready ## Write the recording rules.
	$(PY) tools/build_rules.py
	@$(MAKE) --no-print-directory chart

clean: ## Remove the environment and caches of this checkout.
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

.venv/.ready: requirements/dev.lock pyproject.toml tools/setup.sh
	@tools/setup.sh venv .venv requirements/dev.lock

.venv-infra/.ready: requirements/infra.lock pyproject.toml tools/setup.sh
	@tools/setup.sh venv .venv-infra requirements/infra.lock

node_modules/.package-lock.json: package-lock.json
	npm ci --silent
