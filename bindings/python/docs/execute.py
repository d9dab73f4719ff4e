"""Runs the notebook `machines.ipynb` from its first cell to its last: `python docs/execute.py [--write]`

Fails where a cell does. With --write, what the cells show is written into it. Needs nbclient, ipykernel and pandas, and the command
`coreshard`.
"""

import os
import sys

import nbformat
from nbclient import NotebookClient

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "machines.ipynb")


def main():
    notebook = nbformat.read(PATH, as_version=4)
    NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
    shown = sum(len(cell.outputs) for cell in notebook.cells if cell.cell_type == "code")
    print(f"{len(notebook.cells)} cells, {shown} outputs")
    if "--write" in sys.argv[1:]:
        for cell in notebook.cells:
            cell.metadata.pop("execution", None)
        nbformat.write(notebook, PATH)


if __name__ == "__main__":
    main()
