"""Pairs (gold, answer): number words, labels, chains, nesting, presentation, notations."""

from math_cases import pairs

# number words and units
RIGHT = pairs(r"""
0.5 || 5\text{ tenths} ;; 0.5 || 5 tenths ;; 500000 || 5\text{ lakh} ;; 1.5 || 3 halves ;;
1500000 || \$1.5\text{M} ;; 1500000 || 1.5\text{ M} ;; 300\text{ K} || 300 ;; 1 || 1\text{ (one)} ;;
5 || 5\text{ seconds} ;; 5 || 5\text{ m}
""")
WRONG = pairs(r"""
5 || 5\text{ tenths} ;; 5 || 5\text{ hundredths} ;; 5 || 5\text{ halves} ;; 5 || 5\text{ thirds} ;;
5 || 5\text{ quarters} ;; 5 || 5\text{ lakh} ;; 5 || 5\text{ crore} ;; 5 || 5\text{ score} ;;
5 || 5\text{ gross} ;; 5 || 5\text{K} ;; 5 || 5\text{M} ;; 5 || 5\text{B} ;; 5 || \$5\text{M} ;;
5 || 5\text{ i} ;; 5 || 5\text{ x} ;; 5 || 5\text{ radians}x ;; 5 || 5\text{ percent}^2 ;;
5 || 5\text{ (six)} ;; 5 || 5\text{ six} ;; 5 || 5\text{ whole tenths} ;; 5 || 5\text{ minus one}
""")

# labelled lists, nested sets, tuples against lists
RIGHT += pairs(r"""
x=5, y=3 || 5, 3 ;; x=5, y=3 || y=3, x=5 ;; x=5, y=3 || (5,3) ;; y=3, x=5 || (5,3) ;;
x=5 \text{ and } y=3 || 5 \text{ and } 3 ;; a=1, b=2, c=3 || 1,2,3 ;; m=2,b=5 || (2,5) ;;
\{\{1\},\{2\}\} || \{\{2\},\{1\}\} ;; 5 || \{5\} ;; x=5 || \{5\} ;; (1,2) || \{(1,2)\} ;;
\{(1,2)\} || (1,2) ;; \{2,-2\} || \{\pm 2\} ;; (5,3) || 5,3 ;; 2,3 || \{3,2\} ;;
(\pm1,0) || (1,0),(-1,0) ;; [2,2] || \{2\}
""")
WRONG += pairs(r"""
x=5, y=3 || 3, 5 ;; x=5, y=3 || \{3,5\} ;; x=5, y=3 || \{5,3\} ;; x=5, y=3 || x=3,5 ;;
x=5, y=3 || (3,5) ;; a=1, b=2, c=3 || 3, 2, 1 ;; m=2,b=5 || (5,2) ;;
\{1,2\} || \{\{1\},\{2\}\} ;; \{1\} || \{\{1\}\} ;; \{\{1\}\} || 1 ;; 1,2 || \{\{1\},\{2\}\} ;;
(1,2) || (\{1\},\{2\}) ;; 2,3 || (2,3) ;; 2,3 || (3,2) ;; 2,3 || [2,3] ;; 2,3 || [3,2] ;;
[0,\infty) || [0,\infty] ;; (0,\infty) || (0,\infty] ;; 5 || 5:1 ;; 12 || ①② ;;
k>\frac14 || 4k>1 ;; x\ne 3 || x-3\ne 0
""")

# percent signs added by the answer
RIGHT += pairs(r"0.25 || 25\% ;; 25\% || 25 ;; 25\% || 0.25 ;; -5\% || -5")
WRONG += pairs(r"1.5 || 1.5\% ;; 3 || 3\% ;; 42 || 42\% ;; -5 || -5\% ;; 25 || 25 \text{ percent}")

# arithmetic left undone around a variable, zero terms, uncancelled factors, factoring in part
RIGHT += pairs(r"""
i || 0+1i ;; \frac{p}{q} || p \div q ;; 2x(x+1) || 2(x+1)x ;; 2(x+1) || 2x+2 ;;
n(n+1) || n^2+n ;; 2(x+1)(x-1) || (2x+2)(x-1) ;; e^x(x+1) || xe^x+e^x ;; x=2y || y=\frac{x}{2} ;;
\int_0^1 e^{x^2}dx || \int_0^1 e^{t^2}dt ;; \frac{2x}{3} || \frac{4x}{6}
""")
WRONG += pairs(r"""
42 || 42+x-x ;; 42 || 42+0x ;; 42 || 0y+42 ;; 42 || \frac{42x}{x} ;; 42 || 42\cdot1^x ;;
42 || 42+0i ;; 42 || 42+0\pi ;; 42 || -(-42) ;; 0 || x-x ;; x || \frac{x^2}{x} ;;
x || \frac{x(x+1)}{x+1} ;; x || \frac{x(x+1)}{1+x} ;; x || 2x-x ;; x || \frac{2x}{2} ;; x || x+0 ;;
x || x\cdot1^x ;; \frac34 || 3÷4 ;; 3\pi || 2\pi+\pi ;; x(x+1) || x^2+x ;; x^2(x+1) || x^3+x^2 ;;
2(x+1)(x-1) || 2(x^2-1) ;; (x+1)(x+2) || x^2+3x+2
""")

# labels and chains on the left
RIGHT += pairs(r"""
7 || |AB|=7 ;; 7 || |AB| = 7 \text{ cm} ;; 7 || 3+4=7 ;; 7 || \sqrt{49}=7 ;; 7 || \frac{14}{2}=7 ;;
10 || \binom52=10 ;; 120 || 5!=120 ;; 15 || 3\times5=15 ;; 6 || A=\frac12\cdot3\cdot4=6 ;;
6 || x=2\cdot3=6 ;; 5 || m+n=2+3=5 ;; 3 || \log_2 8=3 ;; 3 || \gcd(a,b)=3 ;;
2 || \lim_{x\to0}f(x)=2 ;; x^2+C || \int 2x\,dx=x^2+C ;; 42 || 6 × 7 = 42 ;;
x^2+x || f(x)=x(x+1)=x^2+x ;; x^2+2x+1 || (x+1)^2=x^2+2x+1 ;; 3 || \lfloor x\rfloor=3 ;;
3 || \det A=3 ;; 3 || \max f=3 ;; \frac12 || \sin\theta=\frac12 ;; 7 || |z|=7 ;; 7 || \|v\|=7 ;;
\frac{22}{7} || \frac{22}{7}\approx3.14 ;; \sqrt2 || \sqrt2\approx1.414 ;;
\sqrt2 || x=\sqrt2\approx1.414 ;; 3.14 || x\approx3.14 ;; 5 || x:=5 ;; 5 || x\equiv5
""")
WRONG += pairs(r"""
7 || 7=3+4 ;; 7 || x=3+4 ;; 7 || 3+4=7=8 ;; 7 || 8=3+4=7 ;; \pm7 || |z|=7 ;; 5 || |x|=5 ;;
\frac12 || \sin x=\frac12 ;; 9 || x^2=9 ;; 42 || 42\approx 17 ;; \sqrt2 || \sqrt2\approx7 ;;
3.14 || \frac{22}{7}\approx3.14 ;; 42 || 41=42
""")
