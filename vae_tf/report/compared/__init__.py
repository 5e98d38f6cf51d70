"""Many models side by side: tables, figures and one page.

    groups      models in groups, and which settings vary within and between them
    tables      means and spreads for a terminal, and as CSV, Markdown and LaTeX
    figures     scatter, curves over a setting, rank correlations
    traversed   one model of each group, as its latents move
    page        one HTML file that holds everything
"""
