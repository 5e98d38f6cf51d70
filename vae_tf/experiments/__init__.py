"""The papers' tables and figures as data, run and read out: `python -m vae_tf.experiments`.

Reading order, each file importing only from those before it:

    entries      entries of a file in TOML, every mistake one line
    claims       what a paper claims in words, or by an order of its models
    tables       tables/NAME.toml: what a paper prints, and how each cell is measured here
    recipes      flags/PAPER/NAME.flags as a dict of flags
    results      results/**/*.json: what was measured, one file per run
    listing      what a terminal shows of tables
    summaries    the cells of a table over seeds, against what the paper prints and claims
    figures      the figures of docs/results.md
    page         docs/results.md
    scheduling   tasks handed to dask.distributed
    progress     how far tasks are
    tasks        what a worker does: some seeds of a recipe
    finding      runs and exports that exist already
    looks        what figures show of a trained model
    planning     what is left to do for a table
    running      one task: found or trained, scored, written
    measured     experiments that train nothing

The files before `finding` import neither TensorFlow nor Keras, so that listing all tables takes a second.
"""
