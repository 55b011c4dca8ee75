"""The exercises of the notebooks: one module a notebook, with its checks and hints."""
