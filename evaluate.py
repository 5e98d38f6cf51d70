"""Score an exported model: `python evaluate.py` is `vae-tf evaluate`.

The program is in vae_tf/programs/evaluate.py.
"""

from vae_tf import console, programs

if __name__ == "__main__":
    console.start()
    programs.run("evaluate")
