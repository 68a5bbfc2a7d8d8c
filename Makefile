# Everything lives in .venv: nothing is installed outside this folder.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: install run test lint bench bench-setup proof proof-fresh proof-whatif proof-compiled bench-pipeline proof-kills proof-rings proof-ringtree bench-ringtree proof-moves proof-plain proof-failover proof-plain-use proof-damage clean

install: $(READY)

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "gossamer needs Python 3.11 or newer; set PYTHON=/path/to/python3")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,pipeline,announce,lan]'
	@touch $(READY)

run: install
	$(BIN)/gossamer demo

# Side by side on all processors; tests that share one Java or one cluster stay together (xdist_group).
test: install
	$(BIN)/python -m pytest -n auto --dist loadgroup

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Properties with fresh examples, every question of scenarios/whatif, and every other scenario as it stands with seeds 1
# to SEEDS, JOBS at a time: days on two processors. make proof SEEDS=3 SCENARIOS=reliable proves one template.
SEEDS ?= 20
JOBS ?= $(shell nproc)
SCENARIOS ?=
PROOF ?= proof.json

proof: $(if $(SCENARIOS),,proof-fresh proof-whatif) install
	$(BIN)/python benchmarks/proof.py $(or $(SCENARIOS),--all) --seeds $(SEEDS) --jobs $(JOBS) --out $(PROOF)

# Tests of properties draw other examples each time; a failure prints how to have the same again.
proof-fresh: install
	HYPOTHESIS_PROFILE=fresh $(BIN)/python -m pytest -n auto -m hypothesis
	HYPOTHESIS_PROFILE=fresh $(BIN)/python -m pytest -n auto tests/core/test_fuzz.py

proof-whatif: install
	for each in scenarios/whatif/*.toml; do \
		$(BIN)/gossamer whatif $$each --out build/whatif/$$(basename $$each .toml) || exit 1; done

# The same with a compiled copy of the package in build/, one and a half times to twice as fast; needs a C compiler.
# Those that are compiled; ringtree runs with proof.
COPY := build/compiled

proof-compiled: SCENARIOS = causal loop multicast persistent reliable single-source total-order
proof-compiled: install
	$(BIN)/python -m pip install --quiet --disable-pip-version-check setuptools
	$(BIN)/python benchmarks/compiled.py $(COPY)
	PYTHONPATH=$(CURDIR)/$(COPY) $(BIN)/python benchmarks/proof.py $(SCENARIOS) --seeds $(SEEDS) --jobs $(JOBS) --out $(PROOF)

# gossamer beside other messaging systems; those that are not installed are left out. make bench BENCH=--full for all.
BENCH ?=
CHARTS ?= bench.html

bench: install
	$(BIN)/gossamer bench peers --chart $(CHARTS) $(BENCH)

# The other systems: servers as packages of Debian, clients into .venv.
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)

bench-setup: install
	$(SUDO) apt-get install --yes --no-install-recommends nats-server redis-server mosquitto
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[bench]'

# Kills a streaming job from a log into a channel twenty times: nothing lost, nothing twice.
proof-kills: install
	$(BIN)/python -m tests.pyspark_gossamer.kills 20

# Joins at one place, swaps beside a crash, adjacent crashes and partitions of multirings, SEEDS of each.
proof-rings: SEEDS = 100
proof-rings: install
	$(BIN)/python -m tests.templates.multiring.cases $(SEEDS)

# Objects that disconnect, move and reconnect on dispatch channels: MOVES random histories.
MOVES ?= 1000

proof-moves: install
	$(BIN)/python -m tests.templates.dispatch.histories $(MOVES)

# Clients that move, only publish or only listen, and servers restarted in turn: progress, SEEDS of each.
PLAIN := $(basename $(patsubst scenarios/%,%,$(wildcard scenarios/plain/*.toml)))

proof-plain: install
	$(BIN)/python benchmarks/proof.py $(PLAIN) --seeds $(SEEDS) --jobs $(JOBS) --out $(PROOF)

# Real processes: a publisher's server is killed or stopped ROUNDS times, with each template in turn.
proof-failover: ROUNDS = 50
proof-failover: install
	for template in reliable causal total-order persistent; do \
		$(BIN)/python -m tests.system.failover $$template $(ROUNDS) || exit 1; done

# Real processes: short-lived and lasting publishers at every pair of three nodes, 20 channels of each template, on one
# machine and, as root, on three hosts of its own (network namespaces) with IPv4 and with IPv6; some by `gossamer pub`.
proof-plain-use: install
	$(BIN)/python -m tests.system.plain_use 20
	[ "$$(id -u)" != 0 ] || $(BIN)/python -m tests.system.plain_use 20 --namespaces
	[ "$$(id -u)" != 0 ] || $(BIN)/python -m tests.system.plain_use 20 --namespaces --ipv6

# Real processes: every damage to every file of a single node, and of one voter of three; then repair.
proof-damage: install
	$(BIN)/python -m tests.system.damage

# 32 processes in a ringtree, 8 of them killed at once
proof-ringtree: install
	$(BIN)/python -m tests.system.ringtree_kills 32 8

# Reach, load and delay of a ringtree as members fail, beside the model: docs/ringtree.png; then 100 000 members
bench-ringtree: install
	$(BIN)/python benchmarks/ringtree.py --out docs/ringtree.png
	$(BIN)/python benchmarks/ringtree.py --members 100000

# Everything that the pipeline is held to, in one table; e.g. make bench-pipeline PARTS="sweep tiny" ROUNDS=5
PARTS ?=
ROUNDS ?= 3

bench-pipeline: install
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'duckdb>=1.1'
	$(BIN)/python -m benchmarks.pipeline $(PARTS) --rounds $(ROUNDS)

clean:
	rm -rf .venv
