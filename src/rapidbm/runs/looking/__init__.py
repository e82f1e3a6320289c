"""What the commands look at: `trained` says what that is, `single` is a machine without a run.

Beside them are the run folder (`runs/folder.py`) and the machines of the package (`runs/pretrained`).
"""
