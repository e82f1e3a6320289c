"""`rapidbm report RUN`: a run on one page, and the style that it shares with a reproduction's page.

`html` renders, `words` says what was chosen, `charts` (by `chart.svg`) and `images` draw, `measured`
samples and evaluates within a limit and keeps what it finds, `page` puts it together.
"""
