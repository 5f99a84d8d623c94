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

# names of quantities, presentation, currency, bases, temperatures, unit vectors
RIGHT += pairs(r"""
42 || 42^{\circ}C ;; x+1 || p(x)=x+1 ;; x+1 || P(x)=x+1 ;; x+1 || q(x)=x+1 ;; x+1 || Q(x) = x+1 ;;
x+1 || f^{-1}(x)=x+1 ;; x+1 || (f\circ g)(x)=x+1 ;; t+1 || s(t)=t+1 ;; t+1 || x(t)=t+1 ;;
n+1 || T(n)=n+1 ;; n+1 || a(n)=n+1 ;; 3 || p(2)=3 ;; 7 || |S|=7 ;; 7 || \mathbb E[X]=7 ;;
7 || \mathbb{E}[X]=7 ;; 7 || E(X)=7 ;; \frac14 || P(A|B)=\frac14 ;;
\frac14 || P(A\cap B)=\frac14 ;; \frac14 || P(X=2)=\frac14 ;; \frac14 || \Pr(A)=\frac14 ;;
12 || \text{Area}(ABC)=12 ;; 12 || \text{Area}=12 ;; f(n)=n+1 || f(x)=x+1 ;;
5 || \therefore x=5 ;; 5 || \Rightarrow 5 ;; 5 || \implies x=5 ;; 5 || ∴ 5 ;;
x(y+1)=6 || xy+x=6 ;; 5 || \color{red}{5} ;; 5 || \textcolor{red}{5} ;; 5 || {\color{blue} 5} ;;
5 || \Large 5 ;; 5 || \large 5 ;; 5 || \Large{5} ;; 5 || \hbox{5} ;; 5 || \ensuremath{5} ;;
5 || \mathtt{5} ;; 5 || \hspace{1em}5 ;; 5 || 5\label{eq:1} ;; 5 || 5\tag{1} ;;
5 || 5\blacksquare ;; 5 || 5\checkmark ;; 5 || 5\,\square ;; 5 || \begin{aligned}5\end{aligned} ;;
5 || \begin{aligned}x&=5\end{aligned} ;; 6 || \begin{aligned}x&=2\cdot3\\&=6\end{aligned} ;;
x=5,y=3 || \begin{aligned}x&=5\\y&=3\end{aligned} ;; 5 || \underline{5} ;; -5 || \$-5 ;;
18 || \textdollar 18 ;; 75 || 75¢ ;; \$0.75 || 75¢ ;; 3:4 || 3\colon4 ;; 123_5 || (123)_5 ;;
2A_{16} || \text{2A}_{16} ;; 123_5 || 123_{(5)} ;; FF_{16} || ff_{16} ;;
20^\circ\text{C} || 20°C ;; 20^\circ\text{C} || 20 ;; 20^\circ\text{C} || 20 degrees Celsius ;;
\frac{20!}{10!10!} || 184756 ;; \binom52 || {}_5C_2 ;; {}_5C_2 || 10 ;;
57.5^\circ || 57^\circ30' ;; (0,1) || ]0,1[ ;; [0,1) || [0,1[ ;;
3\mathbf{i}-2\mathbf{j} || 3\hat{i}-2\hat{j} ;;
3\mathbf{i}-2\mathbf{j} || 3\hat{\imath}-2\hat{\jmath} ;;
3\mathbf i-2\mathbf j || 3\hat{\mathbf{i}}-2\hat{\mathbf{j}} ;; A_5 || (A)_5 ;;
a_{16} || a_{16} ;; [[1,2],[3,4]] || \begin{pmatrix}1&2\\3&4\end{pmatrix}
""")
WRONG += pairs(r"""
12 || \text{not Area}=12 ;; f(x)=2x || g(x)=2x ;; f(x)=ax+n || f(n)=an+x ;; 0 || x(x+1)=0 ;;
0.75 || 75¢ ;; 20^\circ\text{C} || 20°F ;; 5 || 5\color{red}{7} ;; 5 || \tag{5} ;;
57.5^\circ || 57^\circ 31' ;; 3\mathbf i-2\mathbf j || 2\hat{\mathbf{i}}-3\hat{\mathbf{j}}
""")

# factorials side by side, digits behind a point in a base, worked golds
RIGHT += pairs(r"""
\frac{20!}{10!10!} || 184756 ;; {}_5C_2 || 10 ;; 0.1_2 || 0.1_2 ;; 0.1_2 || 0.1_{2} ;;
#### 5 || 5 ;; 5!5 || 600
""")
WRONG += pairs(r"""
\frac{20!}{10!10!} || \binom{20}{10} ;; 0.1_2 || 0.11_2 ;; 6 || (2)3
""")

# exclusions, products of letters, classes, words, ratios, columns, dots, constants, times
RIGHT += pairs(r"""
x\ne\pm1 || x\ne 1,-1 ;; x\ne2,3 || x\ne2\text{ and }x\ne3 ;; abc || cab ;; abc || a b c ;;
7\pmod{10} || x\equiv7\pmod{10} ;; 7\pmod{10} || 17\pmod{10} ;; 7\pmod{10} || 7 ;;
7\pmod{10} || 7 \bmod 10 ;; 7\pmod{10} || 7 (mod 10) ;; 12 || \text{twelve} ;;
\text{twelve} || 12 ;; 12 || twelve ;; 21 || \text{twenty-one} ;; 105 || one hundred and five ;;
2500 || two thousand five hundred ;; \frac23 || two thirds ;; 1.5 || 1\text{ and a half} ;;
1.5 || one and a half ;; 3 || \text{3rd} ;; 3 || 3^{rd} ;; 3 || 3^{\text{rd}} ;;
3:4 || 3\text{ to }4 ;; 3:4 || 3 to 4 ;; \begin{pmatrix}3\\-7\end{pmatrix} || \binom{3}{-7} ;;
\{1,2,\ldots,10\} || \{1,2,3,4,5,6,7,8,9,10\} ;; \{1,2,3,4,5,6,7,8,9,10\} || \{1,2,\ldots,10\} ;;
2,4,6,\ldots,20 || 2,4,6,8,10,12,14,16,18,20 ;; 1,2,\ldots,n || 1,2,\ldots,n ;; x^2+C || x^2+K ;;
x^2+C || x^2+c ;; x^2+C || F(x)=x^2+K ;; k\pi || n\pi ;;
x=\frac{\pi}{6}+2k\pi || x=\frac{\pi}{6}+2n\pi ;;
(-\infty,2)\cup(3,\infty) || (-\infty,2) \text{ or } (3,\infty) ;; 15:30 || 3:30\text{ PM} ;;
3:30\text{ PM} || 15:30 ;; 3:45 \text{ p.m.} || 3:45 PM ;; \text{no solution} || \emptyset ;;
\text{no solution} || \varnothing ;; \text{no solution} || \text{no solutions} ;;
\emptyset || \text{no solution} ;; \text{Alice and Bob} || \text{Bob and Alice} ;;
5\text{ m} || 5m ;; \tan 15^\circ || 2-\sqrt3 ;; 90^\circ || 90º
""")
WRONG += pairs(r"""
x\ne\pm1 || x\ne 1 ;; x\ne2,3 || x\ne2\text{ and }x\ne4 ;; abc || abd ;; \text{abc} || cab ;;
7\pmod{10} || 8\pmod{10} ;; 7\pmod{10} || 7\pmod{11} ;; 7\pmod{10} || 17 ;; 7 || 7\pmod{10} ;;
12 || \text{thirteen} ;; 3 || \text{third} ;; 3:4 || 4 to 3 ;; 3 || 3 to 4 ;;
\begin{pmatrix}3\\-7\end{pmatrix} || \binom{-7}{3} ;;
\{1,2,\ldots,10\} || \{1,2,3,4,5,6,7,8,9\} ;; \{2,4,\ldots,8\} || \{2,4,6,8\} ;; x^2+C || x^2+x ;;
x^2+C || x^2+2K ;; x^2+C || Kx^2 ;; k\pi || 2n\pi ;; k || n ;; 2k || 2n ;;
(-\infty,2)\cup(3,\infty) || (-\infty,2) \text{ and } (3,\infty) ;; 15:30 || 3:30\text{ AM} ;;
3:30 || 15:30 ;; 12:30\text{ AM} || 0:30 ;; 12:00 || 12:00 \text{ PM} ;;
\emptyset || \text{no real solution} ;; \text{Alice and Bob} || \text{Bob and Carol} ;;
\text{Alice and Bob} || \text{Alice} ;; 5\text{ m} || 6m ;; 5\text{ m} || 5s ;; 5\text{ m} || 5xm
""")
