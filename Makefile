# Every target makes the virtual environment if it is missing. Another Python: make test PYTHON=python3.12
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# One process per core, each with one thread, so that they do not wait for each other.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest -n auto

.DEFAULT_GOAL := help
.PHONY: help demo test test-all check wheel format benchmark smoke transfer results clean

help: ## Show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

demo: $(READY) ## Train a GCN and GCN-GUMP on rings of growing size; a table, out/ring_transfer.png, out/records
	$(BIN)/python examples/ring_transfer.py

test: check ## Style, types, tests, and the wheel in an environment of its own
	$(PYTEST)
	@$(MAKE) --no-print-directory wheel
	@echo "make test: all passed"

test-all: check ## The same with the slow tests
	$(PYTEST) -m ""
	@$(MAKE) --no-print-directory wheel
	@echo "make test-all: all passed"

check: $(READY) ## Style and types only
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy gump

# The wheel is built from the source distribution, installed with the library's own dependencies only, and run away from this folder; then
# with what its command needs.
wheel: $(READY) ## Build the wheel and try it in a clean environment
	@set -e; folder=$$(mktemp -d); trap 'rm -rf "$$folder"' EXIT; constraints=$$PWD/constraints.txt; \
	echo "building the wheel"; \
	$(BIN)/python -m build --outdir "$$folder" . >"$$folder/log" 2>&1 || { cat "$$folder/log"; exit 1; }; \
	echo "installing it into a clean environment"; \
	$(PYTHON) -m venv "$$folder/venv"; \
	"$$folder/venv/bin/pip" install -q -c "$$constraints" "$$folder"/*.whl; \
	cd "$$folder"; venv/bin/python -c "$$TRY_WHEEL"; \
	if said=$$(venv/bin/gump --help 2>&1); then echo "gump must not start without the extra [cli]"; exit 1; fi; \
	case "$$said" in "error: the command needs: pip install"*) ;; *) echo "$$said"; exit 1;; esac; \
	echo "installing what its command needs"; \
	venv/bin/pip install -q -c "$$constraints" "$$(echo "$$folder"/*.whl)[cli]"; \
	venv/bin/gump list models >listed; grep -q GUMP listed || { cat listed; exit 1; }; \
	echo "its command works: $$(wc -l <listed) lines from gump list models"

define TRY_WHEEL
import importlib.resources, torch, gump
model = gump.nn.GraphPredictor(gump.nn.GUMP(3, 8, num_layers=2), out_channels=2)
out = model(torch.rand(4, 3), torch.tensor([[0, 1, 2], [1, 2, 3]]))
assert out.shape == (1, 2) and out.isfinite().all(), out
assert importlib.resources.files(gump).joinpath("py.typed").is_file(), "py.typed is not in the wheel"
print(f"the wheel works: torch-gump {gump.__version__}, torch {torch.__version__}")
endef
export TRY_WHEEL

format: $(READY) ## Sort imports, fix what can be fixed, format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

benchmark: $(READY) ## Time the core
	OMP_PROC_BIND=true $(BIN)/python benchmarks/core.py

smoke: $(READY) ## Two epochs of every system of the TU table with GIN, into out/smoke; needs GUMP_DATA
	@test -n "$$GUMP_DATA" || { echo "set GUMP_DATA to the folder of datasets"; exit 1; }
	$(BIN)/gump run configs/tu/*_gin_*.toml --splits 0-1 --set train.epochs=2 --jobs 2 --records out/smoke

transfer: $(READY) ## The transfer figure with all its runs, into records and out/report; long
	$(BIN)/gump run configs/transfer --jobs 2
	$(BIN)/gump report

results: $(READY) ## What the records say, beside the published numbers: RESULTS.md, and every number into results
	$(BIN)/gump report records --out results --summary RESULTS.md --times benchmarks/results/epochs.txt >/dev/null

clean: ## Remove the environment and everything that was built
	rm -rf $(VENV) build dist out *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q -c constraints.txt -e '.[dev]'
	touch $@
