"""Cases of the shared file on which sound graders differ, by id, and what was decided."""

# accepted, as the file does
ACCEPTED = """
choice-mc-04 choice-mc-06 choice-mc-07 choice-mc-08 choice-mc-18 countdown-arith-02
countdown-arith-20 countdown-arith-28 countdown-arith-29 math-adv-16 math-angle-04
math-base-02 math-currency-05 math-eq-14 math-eq-18 math-extract-08 math-extract-22
math-extract-23 math-extract-25 math-extract-26 math-extract-35 math-extract-39 math-frac-14
math-frac-17 math-hang-06 math-hang-15 math-ineq-04 math-log-08 math-misparse-12
math-misparse-17 math-mixed-01 math-mixed-04 math-percent-03 math-poly-03 math-poly-14
math-ratio-06 math-root-02 math-root-04 math-root-05 math-set-07 math-set-13 math-set-21
math-text-07 math-text-09 math-text-13 math-tuple-09 math-unicode-03 math-unit-01
math-unit-02 math-unit-08 math-unit-10 math-unit-11
"""

# refused, as the file does
REFUSED = """
choice-mc-24 countdown-arith-05 countdown-arith-35 countdown-arith-37 math-adv-09
math-adv-10 math-adv-11 math-adv-12 math-base-05 math-comb-06 math-extract-15
math-extract-31 math-extract-34 math-extract-36 math-frac-02 math-frac-04 math-frac-22
math-frac-34 math-ineq-12 math-interval-03 math-interval-04 math-log-12 math-matrix-09
math-misparse-08 math-percent-08 math-set-03 math-thousand-08 math-trig-13 math-unit-07
"""

# refused though the file accepts: arithmetic left undone earns nothing (option allow_undone)
UNDONE = """
math-comb-01 math-comb-02 math-comb-03 math-comb-04 math-complex-04 math-complex-05
math-complex-06 math-frac-13 math-log-05 math-log-09 math-log-10 math-root-03 math-root-10
math-set-12 math-trig-03 math-trig-05 math-trig-06 math-unicode-04
"""

# refused though the file accepts: |x| < 2 for -2 < x < 2 is the inequality still to be solved
UNSOLVED = "math-ineq-09"
