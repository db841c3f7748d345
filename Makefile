# make demo        make the environment, run examples/dot.cu in the stock model
# make test        make the environment, lint, type check, run the tests (what CI runs)
# make test-slow   the tests that take minutes: every kernel on the classic machine
# make golden      rewrite golden/ after a change that means to alter the compiler's output
# make bench       print the performance tables; `make readme` writes them into README.md
# make measure     measure anew what those tables quote: compile times, the build of classic
# make model       check in the stock model every kernel that has changed since (an hour for all)
# make engines     measure anew the sparse engine and the stock model's decoding
# make kernels     print anew the PTX of the chat's kernels
# make chat-demo   train that base (once), merge nano into it, ask it two questions
# make demo-base   train the small base model of docs/DEMO_BASE.md; `make demo-accuracy` examines it
# make lint        ruff and pyright only
# make format      ruff's formatter

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
READY := .venv/ready

DEMO_BASE := build/demo-base
DEMO_MERGED := build/demo-merged
TRAINING := $(filter-out demo_base/evaluate.py,$(wildcard demo_base/*.py)) demo_base/chat_template.jinja

.PHONY: demo chat-demo kernels demo-base demo-accuracy test test-slow golden bench measure model engines readme lint format clean

demo: $(READY)
	$(BIN)/qgpuc run examples/dot.cu --grid 1 --block 1 \
	    --arg 'a=[1,2,3]' --arg 'b=[4,5,6]' --arg c=zeros:1 --arg n=3 --engine transformers --check

demo-base: $(DEMO_BASE)/config.json

chat-demo: $(DEMO_MERGED)/config.json
	$(BIN)/qgpuc chat --model $(DEMO_MERGED) \
	    --message 'What is the dot product of [1, 2, 3] and [4, 5, 6]?' --message 'Sort [31, 5, -7, 12].'

$(DEMO_MERGED)/config.json: $(DEMO_BASE)/config.json
	rm -rf $(DEMO_MERGED)
	$(BIN)/qgpuc merge --base $(DEMO_BASE) --machine nano -o $(DEMO_MERGED)

demo-accuracy: $(DEMO_BASE)/config.json
	$(BIN)/python -m demo_base.evaluate $(DEMO_BASE) --store

$(DEMO_BASE)/config.json: $(TRAINING) | $(READY)
	$(BIN)/python -m demo_base.train -o $(DEMO_BASE)

kernels: $(READY)
	$(BIN)/qgpuc compile runtime/chat/kernels.cu --entry add --to ptx -o build/kernels
	cp build/kernels/kernels.ptx runtime/chat/kernels.ptx

test: lint
	$(BIN)/pytest --durations=10

test-slow: $(READY)
	$(BIN)/pytest -m slow --durations=10

golden: $(READY)
	$(BIN)/pytest -q tests/test_golden.py --update-golden

bench: $(READY)
	$(BIN)/qgpuc bench

measure: $(READY)
	$(BIN)/qgpuc bench --measure

model: $(READY)
	$(BIN)/qgpuc bench --model

engines: $(READY)
	$(BIN)/qgpuc bench --engines

readme: $(READY)
	$(BIN)/qgpuc bench --readme

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv build *.egg-info

$(READY): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade-strategy only-if-needed -e '.[test]'
	touch $(READY)
