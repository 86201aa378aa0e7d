# The whole interface for a newcomer: make run, make test. The rest is for those who work on it.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.PHONY: run test check format lock clean
