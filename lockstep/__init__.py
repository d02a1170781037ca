"""No package: the C++ sources. `import lockstep` in a checkout gets here, since Python looks for modules
in the current folder first.

The package that is installed is imported instead. Where there is none, the error says so; otherwise
this folder would be a package without anything in it.
"""

import importlib.util
import pathlib
import sys


def _import_installed():
    here = pathlib.Path(__file__).resolve().parent.parent
    path = list(sys.path)
    sys.path[:] = [entry for entry in path if pathlib.Path(entry or ".").resolve() != here]
    try:
        specs = (finder.find_spec("lockstep", None) for finder in sys.meta_path
                 if hasattr(finder, "find_spec"))
        # One without a loader is a folder that happens to have the name.
        spec = next((one for one in specs if one is not None and one.loader is not None
                     and one.origin != __file__), None)
    finally:
        sys.path[:] = path
    if spec is None:
        raise ImportError(
            f"{here / 'lockstep'} holds the C++ sources of Lockstep, not the Python package, which is "
            "not installed here: `pip install .` installs it; in a checkout that is built, "
            f"PYTHONPATH={here / 'build' / 'release' / 'python'} finds it, too",
            name="lockstep", path=str(here / "lockstep"))
    module = importlib.util.module_from_spec(spec)
    sys.modules["lockstep"] = module
    spec.loader.exec_module(module)


_import_installed()
