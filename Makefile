# make           the tools, in build/bin (installs what is missing first)
# make check     the same, and every test
# make demo      compile and train a ResNet with exact and with compressed activations, side by side
# make help      the other targets

PRESET ?= release
JOBS ?= $(shell nproc)
BUILD = $(if $(filter release,$(PRESET)),build,build-$(PRESET))

export NINJA_STATUS = [%f/%t] 

.PHONY: all cuda cuda-engines cuda-gate cuda-test check-python setup configure tools build check test check-long demo accuracy docs-operators kills picture soak sweep asan tsan fuzz debug tidy format bench speed clean help
.DEFAULT_GOAL := all

all: tools

help:
	@echo 'make                  builds $(BUILD)/bin/actc, actrun and actplan; installs what is missing first'
	@echo 'make check            the same, and builds and runs every test'
	@echo 'make test             runs the tests alone; TESTS=REGEX picks some'
	@echo 'make check-long       as check, with the slow tests over every golden case'
	@echo 'make check-python     tests the export helper against autograd; PYTHON=... names a Python with torch and pytest'
	@echo 'make demo             trains a ResNet with exact and with compressed activations, side by side'
	@echo 'make accuracy         trains digits and text at several levels with many seeds (an hour); SEEDS=N'
	@echo 'make speed            times training steps beside PyTorch; PYTHON=..., MODELS=NAME:BATCH,..., FOLDER=...'
	@echo 'make kills            kills runs at random moments and resumes them: same bytes; N=200 kills'
	@echo 'make soak             a long run: memory stays, resumed losses are equal; STEPS=100000'
	@echo 'make sweep            tries what PyTorch and its libraries of models export (hours); PYTHON=..., ROWS=REGEX'
	@echo 'make bench            times the kernels alone'
	@echo 'make picture          draws docs/memory_over_step.svg'
	@echo 'make docs-operators   writes docs/operators.md, after a change of operators'
	@echo 'make asan             runs the tests under address and undefined behaviour sanitizers'
	@echo 'make tsan             runs the tests of threads under the thread sanitizer; TARGET=NAME; needs clang and libomp-dev'
	@echo 'make fuzz             runs the fuzz targets under libFuzzer; TIME=10m, TARGET=NAME; needs clang and libomp-dev'
	@echo 'make debug            builds everything for debugging'
	@echo 'make format           runs clang-format over all sources'
	@echo 'make tidy             runs clang-tidy over all sources'
	@echo 'make cuda             fetches CUDA (1 GB, from PyPI) if there is none, and builds $(BUILD)/bin/libact_cuda.so'
	@echo 'make cuda-engines     writes docs/measurements/cuda_engines.md; FOLDER=... names more models'
	@echo 'make cuda-test        runs the tests of the CUDA backend, golden cases among them, on the GPU of this machine'
	@echo 'make cuda-gate        compiles the kernels of the golden cases, the demo and ResNet-50 and -152 for three cards;'
	@echo '                      COMPUTE=bf16: those of plans in bfloat16'
	@echo 'make clean            removes $(BUILD)'
	@echo 'Variables: PRESET=release|debug|asan, JOBS=N (processes at a time)'

setup:
	@scripts/setup.sh

# CMake's chatter is shown only where it fails.
configure: setup
	@mkdir -p $(BUILD)
	@cmake --preset $(PRESET) >$(BUILD)/configure.log 2>&1 || { cat $(BUILD)/configure.log; exit 1; }

tools: configure
	@cmake --build --preset $(PRESET) -j $(JOBS) --target actc actrun actplan

build: configure
	@cmake --build --preset $(PRESET) -j $(JOBS)

check: build test

test:
	@scripts/run_tests.sh $(BUILD) $(JOBS) "$(TESTS)"

check-long: export ACT_LONG_TESTS = 1
check-long: check

# A toolkit that CMake finds by itself is used as it is.
cuda: configure
	@grep -q '^-- With CUDA' $(BUILD)/configure.log || { scripts/cuda.sh && $(MAKE) --no-print-directory configure; }
	@cmake --build --preset $(PRESET) -j $(JOBS) --target act_cuda

cuda-engines: cuda tools
	@cmake --build --preset $(PRESET) -j $(JOBS) --target cuda_engines
	@scripts/cuda_engines.sh $(BUILD) $(FOLDER) >$(BUILD)/cuda_engines.md
	@mv $(BUILD)/cuda_engines.md docs/measurements/cuda_engines.md

# On the card of this machine, with NVIDIA's driver and libraries.
cuda-test: cuda build
	@ACT_LONG_TESTS=1 ACT_TEST_CARD=$(CURDIR)/$(BUILD)/bin/libact_cuda.so \
	  scripts/run_tests.sh $(BUILD) $(JOBS) '^Cuda(C[^l]|[^C])|^Long/Golden'

cuda-gate: cuda tools
	@cmake --build --preset $(PRESET) -j $(JOBS) --target card_gate
	@scripts/cuda_gate.sh $(BUILD) $(COMPUTE)

# The tests of the export helper need torch, which nothing else here does.
check-python: tools
	@ACT_BIN=$(CURDIR)/$(BUILD)/bin PYTHONPATH=$(CURDIR)/python/src $(if $(PYTHON),$(PYTHON),python3) -m pytest -q python/tests

demo: tools
	@scripts/demo.sh $(BUILD)

accuracy: tools
	@python3 scripts/accuracy.py --bin $(BUILD)/bin --out $(BUILD)/accuracy $(if $(SEEDS),--seeds $(SEEDS))

docs-operators: configure
	@cmake --build --preset $(PRESET) -j $(JOBS) --target conformance_test
	@$(BUILD)/bin/conformance_test --markdown >docs/operators.md

kills: tools
	@python3 scripts/kill_resume.py --bin $(BUILD)/bin --kills $(if $(N),$(N),200)

soak: tools
	@nice -n 15 python3 scripts/soak.py --bin $(BUILD)/bin --steps $(if $(STEPS),$(STEPS),100000)

picture: tools
	@python3 scripts/memory_picture.py --bin $(BUILD)/bin

# Goes on where it stopped: results.jsonl has a line for each result. ROWS: of library/family.
sweep: SWEEP_PYTHON = $(if $(PYTHON),$(PYTHON),python3)
sweep: tools
	@$(SWEEP_PYTHON) scripts/sweep/sweep.py --bin $(BUILD)/bin --out scripts/sweep/results.jsonl --only '$(ROWS)' $(SWEEP)
	@$(SWEEP_PYTHON) scripts/sweep/table.py scripts/sweep/results.jsonl >$(BUILD)/models.md
	@mv $(BUILD)/models.md docs/models.md

asan:
	@$(MAKE) --no-print-directory check PRESET=asan

tsan: setup
	@scripts/tsan.sh $(JOBS) $(TARGET)

# A time is seconds, or ends in s, m or h.
TIME ?= 10m
fuzz: setup
	@scripts/fuzz.sh $(JOBS) $(TIME) $(TARGET)

debug:
	@$(MAKE) --no-print-directory build PRESET=debug

bench: build
	@for b in $(BUILD)/bin/*_benchmark; do echo "== $$(basename $$b)"; $$b --benchmark_min_time=0.2 || exit 1; done

speed: tools
	@$(if $(PYTHON),$(PYTHON),python3) benchmarks/speed.py --bin $(BUILD)/bin $(if $(MODELS),--models=$(MODELS)) $(if $(FOLDER),--folder=$(FOLDER))

format:
	@git ls-files '*.h' '*.cc' | xargs clang-format -i

tidy: build
	@scripts/tidy.sh $(BUILD) $(JOBS)

clean:
	@rm -rf $(BUILD)
