"""The studio: a page in the browser on which machines are trained, sampled and examined.

One process serves the page (`serve`, `app`, `guard`, `pages`); it never loads torch. Everything that
computes runs in worker processes (`workers`; what they do is in `work/`): one for each training, one for
the chains of the Dream view, two that answer questions (`request_queue`). `messages` is the format in
which they talk. `page/` holds the files that the browser gets.

It may import every room below it. Also imported by the command:

    serve: PORT, is_loopback, serve
"""
