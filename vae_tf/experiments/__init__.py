"""The papers' tables and figures as data, run and read out: `python -m vae_tf.experiments`.

Reading order, each file importing only from those before it:

    entries      entries of a file in TOML, every mistake one line
    tables       tables/NAME.toml: what a paper prints, and how each cell is measured here
    recipes      flags/PAPER/NAME.flags as a dict of flags
    results      results/**/*.json: what was measured, one file per run

These import neither TensorFlow nor Keras, so that a list of all tables takes a second.
"""
