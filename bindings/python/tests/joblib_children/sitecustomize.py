"""On PYTHONPATH: registers the backend in each new interpreter, including joblib's processes."""

import coreshard.joblib

coreshard.joblib.register()
