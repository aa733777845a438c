# Two commands do everything: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
export PLIMSOLL_DATA ?= $(wildcard $(abspath ../shared/data))
export PLIMSOLL_TOOLS ?= $(wildcard $(abspath ../shared/tools))
