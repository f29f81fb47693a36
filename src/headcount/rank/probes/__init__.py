"""What each head is for, read off its values while the model answers questions of known functions.

`values`: what heads carry at the tokens that matter of an answer. `joint`: one classifier over all heads, as published.
`by_head`: a classifier a head. `copying`: heads that copy from the question. `probe`: all of it for a set of questions.
"""
