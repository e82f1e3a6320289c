"""The studio: a page on which one can watch a machine learn, dream and be looked at.

One process serves pages (`serve`, `app`, `guard`, `pages`); it never loads torch. Whatever computes is a
worker, a process of its own (`workers`; `work/` is what they do): each training, the dreams, the clerks
that answer questions. What travels between them is in `wire`. `page/` is what the browser gets.

Knows everything below it. The command uses `serve`.

Others take besides

    serve: PORT, is_loopback, serve
"""
