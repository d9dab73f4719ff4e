"""On PYTHONPATH: each interpreter that begins knows the backend, those of joblib's processes, too."""

import coreshard.joblib

coreshard.joblib.register()
