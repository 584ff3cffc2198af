from pathlib import Path

from delayzero.campaigns.processes import environment


def test_the_variables(tmp_path, monkeypatch):
    for name in ("JAX_COMPILATION_CACHE_DIR", "NPROC"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    alone, beside = environment(Path("cache"), 1), environment(Path("cache"), 64)
    assert alone["JAX_COMPILATION_CACHE_DIR"] == str(tmp_path / "cache")
    assert "NPROC" not in alone
    assert beside["NPROC"] == "1"
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "/mine")
    assert environment(Path("cache"), 2)["JAX_COMPILATION_CACHE_DIR"] == "/mine"


def test_the_memory_of_a_gpu_is_shared(monkeypatch):
    share, new_name = "XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_CLIENT_MEM_FRACTION"
    for name in (share, new_name, "XLA_PYTHON_CLIENT_PREALLOCATE"):
        monkeypatch.delenv(name, raising=False)
    assert share not in environment(Path("cache"), 1)
    beside = environment(Path("cache"), 4)
    assert float(beside[share]) == 0.225
    assert beside["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false"
    assert beside["CUDA_VISIBLE_DEVICES"] == "0"
    monkeypatch.setenv(share, "0.5")
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "true")
    beside = environment(Path("cache"), 4)
    assert (beside[share], beside["XLA_PYTHON_CLIENT_PREALLOCATE"]) == ("0.5", "true")
    monkeypatch.delenv(share)
    monkeypatch.setenv(new_name, "0.5")
    assert share not in environment(Path("cache"), 4), "JAX refuses both"


def test_the_variables_of_a_daemon():
    daemon = {"CUDA_MPS_PIPE_DIRECTORY": "/pipe"}
    assert environment(Path("cache"), 2, daemon)["CUDA_MPS_PIPE_DIRECTORY"] == "/pipe"
