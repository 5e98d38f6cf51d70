"""Train a variational autoencoder and export it: `python train.py --model=ivae` is `vae-tf train --model=ivae`.

The program is in vae_tf/programs/train.py.
"""

from vae_tf import console, programs

if __name__ == "__main__":
    console.start()
    programs.run("train")
