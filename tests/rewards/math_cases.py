"""Pairs (gold, answer) for the tests of the math verifier, of every kind it promises to read."""


def pairs(text: str) -> list[tuple[str, str]]:
    """Pairs are parted by ";;", gold and answer by "||"."""
    return [tuple(part.strip() for part in pair.split("||")) for pair in text.split(";;")]


# equal under the default options
RIGHT = pairs(r"""
O(\log n) || O(\log n) ;; \frac{1}{2} || \dfrac12 ;; \frac12 || .5 ;; 0.5 || 1/2 ;;
-\frac12 || -0.5 ;; 1/2 || \tfrac{1}{2} ;; \frac{3}{4} || 3/4 ;; 1\frac12 || 1.5 ;;
3/2 || 1\tfrac{1}{2} ;; \frac{7}{3} || 2\frac{1}{3} ;; 50\% || 50% ;; 50\% || \frac12 ;;
50\% || 50 \text{ percent} ;; 12.5\% || 12.5 ;; x=5 || 5 ;; 5 || x=5 ;; 5 || x = 5 ;; x=5 || 5=x ;;
y=2x+1 || 2x+1 ;; y=2x+1 || y = 1+2x ;; 2x+1 || f(x)=2x+1 ;; x=1 || x = 1. ;; x=2, y=3 || (2,3) ;;
(2,3) || (x,y)=(2,3) ;; (2,3) || x=2,\ y=3 ;; x=2,y=3 || y=3,x=2 ;; x=2 \text{ or } x=3 || 2, 3 ;;
x=2 \text{ or } x=3 || x=3 \text{ or } x=2 ;; 2,3 || x=2,3 ;; \{2,3\} || x \in \{2,3\} ;;
2 \text{ or } 3 || x=2 \text{ or } x=3 ;; 2,3 || x=2 \text{ and } x=3 ;;
(1,2) || \left(1,2\right) ;; (1,2) || (1, 2) ;; (1,-2,3) || \langle 1,-2,3\rangle ;;
(1/2,3) || (0.5,3) ;; [1,2] || [1, 2] ;; (-\infty,2] || x\le 2 ;; (-\infty,2] || x \leq 2 ;;
x\ge 2 || [2,\infty) ;; (2,\infty) || x>2 ;; (-\infty,-1)\cup(1,\infty) || x<-1 \text{ or } x>1 ;;
(-\infty,-1)\cup(1,\infty) || (1,\infty)\cup(-\infty,-1) ;; \mathbb{R} || (-\infty,\infty) ;;
\mathbb{R}\setminus\{1\} || x\ne 1 ;; (-\infty,1)\cup(1,\infty) || \mathbb{R}\setminus\{1\} ;;
-1\le x\le 1 || [-1,1] ;; -1\le x\le 1 || 1\ge x\ge -1 ;; [\sqrt2,3) || [\sqrt{2},3) ;;
[2\sqrt2,3) || [\sqrt8,3) ;; \{1,2,3\} || \{3,2,1\} ;; 1,2,3 || 3,2,1 ;;
\emptyset || \varnothing ;; \emptyset || \{\} ;; \text{no solution} || \text{No solution} ;;
\pm 2 || 2,-2 ;; 2,-2 || \pm 2 ;; x=\pm 2 || \pm2 ;;
\frac{-1\pm\sqrt5}{2} || \frac{-1+\sqrt5}{2}, \frac{-1-\sqrt5}{2} ;; 1\pm 2i || 1+2i,1-2i ;;
1\pm\sqrt{3} || 1 \pm \sqrt3 ;; 2+3i || 3i+2 ;; i || 0+1i ;; 1+i || \sqrt2 e^{i\pi/4} ;;
1+i || \sqrt{2}\left(\cos\frac{\pi}{4}+i\sin\frac{\pi}{4}\right) ;; -2i || -2i ;; 3-4i || 3 - 4i ;;
\frac{1}{2}+\frac{\sqrt3}{2}i || \frac{1+i\sqrt{3}}{2} ;; \sqrt{2} || 2^{1/2} ;;
2\sqrt{3} || \sqrt{12} ;; \frac{\sqrt{3}}{3} || \frac{1}{\sqrt{3}} ;; \sqrt[3]{2} || 2^{1/3} ;;
\sqrt[3]{4} || ∛4 ;; 2+\sqrt3 || 2+√3 ;; \sqrt{2}+\sqrt{6} || \sqrt{6}+\sqrt{2} ;;
\frac{\sqrt6+\sqrt2}{4} || \frac{\sqrt2+\sqrt6}{4} ;; 3\ln 2 || \ln 8 ;; \ln 2 || \log_e 2 ;;
\frac{\ln 3}{\ln 2} || \log_2 3 ;; \log_2 3 || \frac{\log 3}{\log 2} ;; 2\ln x || \ln x^2 ;;
\cos 2x || 1-2\sin^2 x ;; \tan x || \frac{\sin x}{\cos x} ;; \sin(x)\cos(x) || \frac12\sin 2x ;;
\sin^2 x || 1-\cos^2 x ;; \sec x || \frac{1}{\cos x} ;; \sin\theta || \sin \theta ;;
x^2+2x+1 || 1+2x+x^2 ;; x^2+2x+1 || (x+1)^2 ;; (x+1)(x-1) || (x-1)(x+1) ;; -(x-1) || 1-x ;;
2x(x+1) || 2(x+1)x ;; x^2y || yx^2 ;; xyz || zyx ;; 2xyz || 2zyx ;;
\frac{x+1}{x-1} || -\frac{x+1}{1-x} ;; \frac{n(n+1)}{2} || \frac{n^2+n}{2} ;;
x^{n+1} || x\cdot x^n ;; 2^{n+1} || 2\cdot 2^n ;; 2^n || 2^{n} ;; 12_5 || 12_{5} ;;
1010_2 || 1010_{2} ;; 1010_2 || 1010_{\text{two}} ;; 2^{10} || 2^{10} ;;
\text{Tuesday} || Tuesday ;; \text{Yes} || Yes ;; \text{even} || even ;; Monday || \text{Monday} ;;
\text{red and blue} || red and blue ;; \text{A} || A ;; \text{John} || \mathrm{John} ;;
\text{point } P || \text{point }P ;; \text{(A)} || A ;; neither || \text{neither} ;;
\text{ellipse} || \text{Ellipse} ;; 1,000,000 || 1000000 ;; 1000 || 1,000 ;; 12345 || 12{,}345 ;;
12345 || 12\,345 ;; 1234.5 || 1,234.5 ;; 10,000 || 10^4 ;; 10000 || 1\times10^4 ;;
0.001 || 10^{-3} ;; 6.02\times10^{23} || 6.02e23 ;; 3\cdot 10^8 || 300000000 ;;
1.5\times 10^{3} || 1500 ;; 0.\overline{3} || 1/3 ;; 0.\overline{142857} || \frac{1}{7} ;;
\frac{1}{6} || 0.1\overline{6} ;; \frac13 || 0.\bar{3} ;; \frac13 || 0.333... ;;
\frac{4}{33} || 0.\overline{12} ;; \frac13 || 0.\dot{3} ;; \frac13 || 0.(3) ;; \$5 || 5 ;;
5 || \$5 ;; \$5.00 || 5 ;; \$1{,}000 || 1000 ;; \$2.50 || 2.5 \text{ dollars} ;; €5 || 5 ;;
5 \text{ dollars} || \$5 ;; 90^\circ || 90 ;; 90 || 90^\circ ;; 90^\circ || 90° ;;
45^{\circ} || 45 \text{ degrees} ;; \frac{\pi}{2} || 90^\circ ;; 10 \text{ cm} || 10\text{cm} ;;
10 \text{ cm} || 10 cm ;; 10 \text{ cm} || 10\,\mathrm{cm} ;; 10 || 10 \text{ cm}^2 ;;
10 \text{ cm}^2 || 10 \text{ square centimeters} ;; 5 \text{ feet} || 5 \text{ ft} ;;
60 \text{ mph} || 60 \text{ miles per hour} ;; 5 || 5 \text{ units} ;; 5 || 5\text{ apples} ;;
5 || 5 apples ;; 2 \text{ hours} || 120 \text{ minutes} ;; 3 \text{ km} || 3000 \text{ m} ;;
10\text{ m/s} || 10\ \frac{\text{m}}{\text{s}} ;; 3:4 || 3:4 ;; 3:4 || 3 : 4 ;; \frac34 || 3:4 ;;
2:3 || 4:6 ;; 1:2:3 || 2:4:6 ;; 12:30 || 12:30 ;; 3:45 \text{ p.m.} || 3:45 \text{ pm} ;;
\begin{pmatrix}1&2\\3&4\end{pmatrix} || \begin{bmatrix}1&2\\3&4\end{bmatrix} ;;
\begin{pmatrix}1/2\\-1\end{pmatrix} || \begin{pmatrix}\frac12\\-1\end{pmatrix} ;;
\begin{pmatrix}1\\2\end{pmatrix} || (1,2) ;;
\begin{pmatrix} 1 & 0 \\ 0 & 1 \end{pmatrix} || \begin{bmatrix} 1 & 0 \\ 0 & 1 \\ \end{bmatrix} ;;
x^2+y^2=1 || y^2+x^2=1 ;; x^2+y^2=1 || 1=x^2+y^2 ;; 2x+3y=6 || 4x+6y=12 ;; y=x || x=y ;;
x+y=1 || y=1-x ;; \frac{x^2}{4}+\frac{y^2}{9}=1 || 9x^2+4y^2=36 ;; x>y || y<x ;;
y\ge 2x+1 || 2x+1\le y ;; x\ne3 || x\neq 3 ;; x \le 3 || 3 \ge x ;; ½ || 0.5 ;; x²+1 || x^2+1 ;;
π || \pi ;; 2π || 2\pi ;; −3 || -3 ;; 5 || ５ ;; ∞ || \infty ;; x₁ || x_1 ;; 60° || 60^\circ ;;
≤ || \le ;; \alpha || α ;; 3×10^5 || 300000 ;; 1⁄2 || \frac12 ;; a·b || ab ;; e^2 || e^{2} ;;
e || e ;; \pi^2 || \pi\cdot\pi ;; \frac{e^x}{2} || 0.5e^x ;; e^{x+y} || e^xe^y ;;
e^{-x} || \frac{1}{e^x} ;; \exp(2) || e^2 ;; |x| || \lvert x\rvert ;;
\lfloor x \rfloor || \left\lfloor x\right\rfloor ;; \binom{n}{k} || \binom{n}{k} ;;
\binom{n}{2} || \frac{n(n-1)}{2} ;; n! || n! ;; \frac{n!}{2} || n!/2 ;;
\frac{1}{n!} || \frac{1}{n!} ;; 2 \text{ million} || 2,000,000 ;;
2.5 \text{ billion} || 2500000000 ;; 60 || 5 \text{ dozen} ;; 1-\frac1e || 1-e^{-1} ;;
\frac{e-1}{e} || 1-\frac{1}{e} ;; 7 || 7. ;; 7 || $7$ ;; 7 || \(7\) ;; 7 || **7** ;; 7 || +7 ;;
7 || 7.0 ;; 7 || 007 ;; 7 || \boxed{7} ;; 7 || = 7 ;; 7 || \text{7} ;; 7 || \mathbf{7} ;;
7 || {7} ;; 7 || (7) ;; 7 || x = y = 7 ;; F_n = \sum_{k} F_k || F_n=\sum_{k}F_k ;;
\frac{dy}{dx}=2x || 2x ;; C || C ;; \overline{AB} || \overline{AB} ;; \angle ABC || \angle ABC ;;
f'(x)=2x || 2x ;; AB=5 || 5 ;; \angle A = 30^\circ || 30 ;; P(A)=\frac12 || \frac12 ;;
x\in[0,1] || 0\le x\le1 ;; \{x\mid x>2\} || (2,\infty) ;; \{x : x > 2\} || x>2 ;;
(2,\infty) || \{x \in \mathbb{R} : x>2\} ;; k\pi || \pi k ;;
\frac{\pi}{4}+k\pi || k\pi+\frac\pi4 ;; x=k\pi, k\in\mathbb{Z} || x=k\pi, k\in\mathbb{Z} ;;
2n+1 || 1+2n ;; a_n=2n+1 || 2n+1 ;; 1, 3, 5, \ldots, 2n-1 || 1,3,5,\dots,2n-1 ;;
12 \text{ and } 15 || 12, 15 ;; 12, 15 || 12 and 15 ;; 3,5,7 || 3, 5, \text{and } 7 ;; AC || A,C ;;
B || (B) ;; \text{B} || \textbf{B} ;; 2\frac{1}{4} || \frac{9}{4} ;; \text{Infinity} || \infty ;;
7 \pmod{12} || 7\pmod{12} ;; \sqrt{x+1} || (x+1)^{1/2} ;; x\sqrt{x} || x^{3/2} ;;
\frac{1}{x^2} || x^{-2} ;; \frac{2x}{x^2+1} || \frac{2x}{1+x^2} ;; \ln|x|+C || \ln|x| + C ;;
\arctan x || \tan^{-1}x ;; \frac{\pi}{6} || \pi/6 ;; \frac{\sqrt{2}}{2} || \sqrt{1/2} ;;
\sqrt{\frac{3}{5}} || \frac{\sqrt{15}}{5} ;; \sqrt{2}/2 || sqrt(2)/2 ;; 2\sqrt3 || 2*sqrt(3) ;;
\frac{1+\sqrt5}{2} || (1+sqrt(5))/2 ;; \frac{\pi}{4} || pi/4 ;; 3\pi || 3*pi ;; x^2 || x**2 ;;
2x+1 || 2*x+1 ;; e^{2x} || e^(2x) ;; \ln 2 || ln(2) ;; \frac{x}{2} || 1/2*x ;;
y=2x+1 || 2x-y+1=0 ;; 2x-y+1=0 || y=2x+1 ;; \pm5 || x = 5 \text{ or } x = -5 ;; x=5 || \{5\} ;;
(-\infty,\infty) || \text{all real numbers} ;; \text{all real numbers} || \mathbb{R} ;;
3.2\times10^5 || 3.2 x 10^5 ;; -5 || -\$5 ;; -5\% || -5% ;;
2\begin{pmatrix}1\\2\end{pmatrix} || \begin{pmatrix}2\\4\end{pmatrix} ;;
\begin{pmatrix}\frac12\\1\end{pmatrix} || \frac12\begin{pmatrix}1\\2\end{pmatrix} ;;
\begin{pmatrix}1&2\\3&4\end{pmatrix} || [[1,2],[3,4]] ;; 1+\sqrt3 i || 2\text{cis}\frac{\pi}{3} ;;
B || Option B ;; B || \text{B because A is too small} ;; 5 || \pounds 5 ;; x\ge2 || x\geqslant 2 ;;
[2,5] || x \ge 2 \text{ and } x \le 5 ;; (2,3)\cup(3,\infty) || x>2, x\ne 3 ;;
\{(1,2),(3,4)\} || \{(3,4),(1,2)\} ;; [0,2] || [0,1]\cup[1,2] ;; a+bi || bi+a ;;
\frac{a}{b} || a/b ;; \frac{1}{2} || \frac{-1}{-2} ;; 10^{-3} || 0.001 ;;
\frac{3\sqrt2}{2} || \frac{3}{\sqrt2} ;; \frac{2}{\sqrt{3}+1} || \sqrt3-1 ;;
4\sqrt2 || \sqrt2\cdot 4 ;; -\sqrt{2} || -√2 ;; ((1,2),3) || ((1,2), 3) ;; p(1-p) || p-p^2 ;;
\frac{p}{q} || p \div q ;; 2^{x+1} || 2\cdot2^x ;; \tan^{-1}\frac12 || \arctan\frac{1}{2} ;;
16\pi || 16\pi \text{ square units} ;; 5 || 5\,\text{cm} ;; 1.5 || 1.50 ;;
\text{Carla} || Carla. ;; x=\frac{1}{2} || \frac12 ;; \frac{\sqrt{3}}{2} || \frac{1}{2}\sqrt{3} ;;
144\sqrt{3} || 144 \sqrt{3} ;; \log_{2}3 || \log_2(3) ;; \frac{5\pi}{6} || \frac{5}{6}\pi ;;
150^\circ || \frac{5\pi}{6} ;; \frac{5}{11} || 0.454545... ;; 10 || 10 \text{ m/s} ;;
(2,3) || x = 2 \text{ and } y = 3 ;; \text{Yes} || \textbf{Yes} ;; -1,1 || \pm 1 ;;
1 || 1 \text{ (one)} ;; x\in\mathbb{R} || \mathbb{R} ;; (-\infty,\infty) || x\in\mathbb{R} ;;
0<x<12.5 || 0 < x < \frac{25}{2} ;; (0,12.5) || 0<x<12.5 ;; x<3 || 3>x ;;
\frac{1}{2},\frac{1}{3} || \frac13,\frac12 ;; \{-2,2\} || x=\pm2 ;; f(x)=x^2+1 || f(x)=1+x^2 ;;
6+8i || 8i+6 ;; 5+12i || 5+12i ;; -i || 0-i ;; 12 || 12.00 ;; 12.50 || \$12.50 ;; 1234 || 1 234 ;;
1000000 || 10^6 ;; 1000000 || 1,000,000.00 ;; 2.5 || 2\frac12 ;; 2.5 || 2 1/2 ;;
-2.5 || -2\frac{1}{2} ;; \frac{7}{2} || 3½ ;; x^4+4 || (x^2+2x+2)(x^2-2x+2) ;;
\frac{1}{x+1} || (x+1)^{-1} ;; x+2n+1 || 2n+x+1 ;; \frac{3}{4}x || \frac{3x}{4} ;;
\frac{3x}{4} || 0.75x ;; \sqrt{n} || n^{0.5} ;; e^{3} || e^3 ;;
\log_{2}(x) || \frac{\ln x}{\ln 2} ;; \cot x || \frac{1}{\tan x} ;; \cos^2 x-\sin^2 x || \cos 2x ;;
1+\tan^2 x || \sec^2 x ;; 2 || 2. ;; \text{Saturday} || \text{saturday} ;;
\text{Evelyn} || Evelyn ;; \text{2:30 pm} || 2:30 \text{ p.m.} ;;
45 \text{ mph} || 45\text{ miles/hour} ;; 20 \text{ minutes} || 20 \text{ min} ;;
1 \text{ hour} || 60 \text{ minutes} ;; 1.5 \text{ kg} || 1500\text{ g} ;;
30 \text{ cm}^2 || 30\text{ cm}^{2} ;; 30 || 30\text{ cm}^{2} ;; 30 || 30 cm^2 ;; 30 || 30cm² ;;
30 || 30 \mathrm{~cm}^2 ;; 30 || 30\,\text{km/h} ;; 30 || 30 \text{ students} ;;
\begin{pmatrix}1\\2\end{pmatrix} || \begin{bmatrix} 1 \\ 2 \end{bmatrix} ;;
\begin{pmatrix}1\\2\end{pmatrix} || \left(\begin{array}{c}1\\2\end{array}\right) ;;
y=-x+3 || x+y=3 ;; y=-x+3 || y=3-x ;; x^2+y^2=4 || \frac{x^2}{4}+\frac{y^2}{4}=1 ;; x=5 || x=5.0 ;;
x=5 || 5.0 = x ;; n\ge3 || n>=3 ;; x\ne 3 || x != 3 ;; ∅ || \emptyset ;; \{\} || \varnothing ;;
(0,1)∪(2,3) || (2,3)\cup(0,1) ;; [0,∞) || [0,\infty) ;; [0,\infty) || x \geq 0 ;;
\{x|x>0\} || (0,\infty) ;; 1:2 || 1/2 ;; 0.25 || 25\% ;; \frac14 || 25\% ;; 25\% || 0.25 ;;
25\% || \frac{1}{4} ;; 25\% || 25 ;; A || \mathrm{A} ;; D || \text{(D) } 24 ;;
D || D) 24 ;; E || \text{E} ;; \text{E} || E ;; BC || B,C ;; BC || \text{B and C} ;; yes || Yes. ;;
false || \text{False} ;; 12_{10} || 12_{10} ;; \text{A2}_{16} || \text{A2}_{16} ;;
1101_2 || 1101_{2} ;; 7! || 7! ;; \binom{8}{3} || \binom{8}{5} ;; \binom{8}{3} || 56 ;;
2^{64}-1 || 18446744073709551615 ;; \frac{2^{100}-1}{2^{100}} || 1-2^{-100} ;;
1-\frac{1}{2^{100}} || 1-\frac{1}{2^{100}} ;; 0 || -0 ;; 0 || 0.00 ;;
-\frac{1}{2} || \frac{1}{-2} ;; \frac{-1}{2} || -0.5 ;; a^2-b^2 || (a-b)(a+b) ;;
\frac{x^2}{y} || x^2/y ;; 3x || 3\cdot x ;; 3x || 3 * x ;; abc || abc ;; \text{abc} || abc ;;
m+n || n+m ;; \theta || θ ;; \phi || \varphi ;; \dfrac{\pi}{2} || 0.5\pi ;;
x=\frac{\pi}{4}+\pi k || \frac{\pi}{4}+\pi k ;; 2\text{ or }3 || 3\text{ or }2 ;;
4,6,14,15 || 4, 6, 14, 15 ;; (3,-1),(2,0) || (2,0),(3,-1) ;; (3,-1) || (3,\,-1) ;;
(3,-1) || (3, −1) ;; \left(\frac{3}{5},\frac{8}{3}\right] || (\tfrac35,\tfrac83] ;;
[-2,7] || -2\le x\le 7 ;; \sqrt{5}+2 || \frac{1}{\sqrt5-2} ;; \sqrt[4]{2} || 2^{1/4} ;;
\sqrt[4]{4} || \sqrt2 ;; \sqrt[3]{-8} || -2 ;; \frac{\sqrt[3]{4}}{2} || \frac{1}{\sqrt[3]{2}} ;;
\sqrt{3+2\sqrt2} || 1+\sqrt2 ;; 1+\sqrt2 || \sqrt{3+2\sqrt{2}} ;; 3\sqrt{13} || 3√13 ;;
\infty || +\infty ;; \infty || ∞ ;; -\infty || -∞ ;; \text{undefined} || undefined ;;
\text{DNE} || DNE ;; 17 || 17 \text{ apples} ;; 17 || \text{17 apples} ;;
17 || 17\ \text{apples each} ;; \$17 || 17 dollars ;; \$0.50 || 50 \text{ cents} ;;
8\text{ feet} || 8\text{ foot} ;; 9 \text{ square units} || 9 ;; 5 \times 10^{-3} || 0.005 ;;
0.005 || 5e-3 ;; 2 - 2i || 2(1-i) ;; \frac{3}{5}-\frac{4}{5}i || \frac{3-4i}{5} ;;
10 || 10. ;; 1A_{16} || 1A_{16} ;; A2_{16} || A2_{16} ;; 5 \text{ sec} || 5 \text{ seconds}
""")

# not to be accepted under the default options
WRONG = pairs(r"""
1/2 || 2 ;; x || y ;; 2x || 2y ;; (1,2) || (2,1) ;; (1,2) || 1 ;; 1,2 || 1 ;; 1 || 1,2 ;;
5 || 5 or 6 ;; 5 || 5, 6 ;; 5 || \text{not } 5 ;; 5 || \text{about }5 ;; 5 || 5 \text{ or more} ;;
5 || x>5 ;; x>5 || 5 ;; x>5 || x<5 ;; x>5 || x\ge5 ;; (0,1) || [0,1] ;; (0,1] || [0,1) ;;
\{1,2\} || \{1\} ;; 3 || 3k ;; 3 || \pm3 ;; \pm3 || 3 ;; 2+3i || 2-3i ;; i || 1 ;;
\sqrt2 || 1.41421356 ;; \pi || 3.14 ;; \pi || 22/7 ;; 1/3 || 0.33 ;; 0.33 || 1/3 ;; 100 || 101 ;;
28\% || 28\%\% ;; 0.5 || 0.5% ;; 0.28 || 28 ;; 28 || 0.28 ;; 3 || 300 ;; 10^{100} || 10^{101} ;;
1\times10^{-20} || 0 ;; 0 || 10^{-20} ;; \ln 2 || \log_{10}2 ;; \sin x || \cos x ;; x^2 || x^3 ;;
x^2-1 || (x-1)^2 ;; x+1 || x+2 ;; \text{Yes} || \text{No} ;; \text{ABC} || ACB ;; ABC || CAB ;;
\text{Tom} || \text{Tim} ;; 12:30 || 12:31 ;; 12:00 || 12 ;; 3:4 || 4:3 ;; 1:2:3 || 1:2:4 ;;
4210_5 || 4210_6 ;; 4210_5 || 4211_5 ;; 20 || 20_8 ;; 5 \text{ cm} || 5 \text{ m} ;;
5 \text{ apples} || 5\text{ oranges} ;; \$5 || €5 ;;
\begin{pmatrix}1\\2\end{pmatrix} || \begin{pmatrix}2\\1\end{pmatrix} ;;
\begin{pmatrix}1&2\end{pmatrix} || \begin{pmatrix}1\\2\end{pmatrix} ;; y=2x+1 || y=2x-1 ;;
x=5 || y=5 ;; x=5 || x=-5 ;; x^2+y^2=4 || x^2+y^2=2 ;; 2x+3y=6 || 2x+3y=7 ;; 2 || 1=2 ;;
7 || 1+1=7 ;; 4 || 2+2 ;; 24 || 4! ;; 8 || 2^3 ;; 5 || |−5| ;; 6 || 2\cdot 3 ;; 2 || \frac{4}{2} ;;
2 || \sqrt4 ;; 1 || \sin^2x+\cos^2x ;; 5050 || \sum_{k=1}^{100}k ;; (x-1)(x-2) || x^2-3x+2 ;;
1 || \cos 0 ;; 0 || \ln 1 ;; x=5 || 2x=10 ;; 42 || 42 \text{ or } 43 ;;
42 || 42 \text{ but maybe } 41 ;; 42 || 41, 42 ;; 42 || \{41,42\} ;; 42 || 42 43 ;; 42 || 4 2 ;;
1 || 11 ;; \infty || -\infty ;; \infty || 1 ;; 7 || \frac{1}{0} ;; 7 || \frac{0}{0} ;; 7 || nan ;;
7 || x ;; 7 || inf ;; 12 || 1, 2 ;; (1,2) || 12 ;; (1,2) || \{1,2\} ;; (1,2) || (1,2),(3,4) ;;
N || n ;; AB || AC ;; 1.0 || 10 ;; 1000 || 1.000,00 ;; x || \sqrt{x^2} ;; |x| || x ;;
\text{Monday} || \text{Monday or Tuesday} ;; B || A or B ;; B || (A) or (B) ;; AC || A ;;
yes || yes and no ;; 2 || \text{2 or 3} ;; 100 || 1e2e ;; 5 || 5x ;; 5x || 5 ;;
-5 || 5 ;; 5 || -5 ;; a+b || a-b ;; e || 2.718281828 ;; \frac{1}{2^{99}} || \frac{1}{2^{98}} ;;
2^{100} || 1267650600228229401496703205377 ;; 2\pi || \pi ;; \emptyset || 0 ;;
\emptyset || \{0\} ;; \mathbb{R} || \mathbb{Z} ;; [0,1] || \{0,1\} ;; x<3 || y<3 ;; x\ne3 || x=3 ;;
x \ge 2 || x \ge 2, x \ge 3 ;; 1 - \frac{1}{\mathrm{e}} || 1 ;; n || n! ;;
1,2,3,\ldots,n || 1,2,\ldots,n ;; \frac{1}{2006!} || \frac{1}{2004!} ;; 5 || 2x=5 ;;
\frac12 || \sin x=\frac12 ;; \pm2 || x^2=4 ;; x_1 || x_2 ;; A || a ;; \alpha || a ;; x' || x ;;
x || \vec{x} ;; \vec{a} || \vec{b} ;; 12 || 12_3 ;;
2\begin{pmatrix}1\\2\end{pmatrix} || \begin{pmatrix}2\\3\end{pmatrix} ;;
\begin{pmatrix}1&2\\3&4\end{pmatrix} || [[1,3],[2,4]] ;; B || Option C ;; B || B and C ;;
B || \text{not B} ;; B || 2 ;; 5 || 0.5 \text{ dozen} ;; (1,2) || (1,2] ;; [1,2] || (1,2) ;;
x>2 || x>2 \text{ or } x<0 ;; \mathbb{R} || \text{all integers} ;; 0.\overline{3} || 0.3 ;;
12 || 1{,}2 ;; 1234 || 12,34 ;; 1.234 || 1,234 ;; \frac12 || \frac{1}{2} \text{ or } \frac13 ;;
\text{Evelyn} || \text{Evelyn is wrong, it is Bob} ;; \text{east} || \text{west} ;;
90^\circ || \pi ;; 1 || \begin{vmatrix}1&0\\0&1\end{vmatrix} ;; 2^{1000000} || 2^{1000001} ;;
3^{100} || 3^{100}+1 ;; \frac{1}{3} || \frac{1}{3}+10^{-50} ;; \sin 1 || \sin 1+10^{-60} ;;
\sqrt{2} || \sqrt{2}+10^{-99} ;; e^{\pi\sqrt{163}} || 262537412640768744 ;; x<5 || x \le 5 ;;
x \in [0,1] || x \in (0,1) ;; y=x^2 || y=x^3 ;; 2x+3y=6 || 2x+3y<6 ;; k\pi || 2k\pi ;;
n^2 || 2^n ;; 2n || n ;; a_n=2n || a_n=3n ;; f(x)=x || f(x)=x^2 ;; \sqrt{x} || \sqrt[3]{x} ;;
\ln x || \log_{10} x ;; \binom{n}{2} || \binom{n}{3} ;; \frac{x}{y} || \frac{y}{x} ;; x-y || y-x ;;
x^2-y^2 || (x-y)^2 ;; |x| || -x ;; \text{None} || \text{No} ;; \text{True} || \text{False} ;;
3 || \text{three or four} ;; 10 || 10^{1}0 ;; C || \text{All of the above} ;; 6 || \approx 6.1 ;;
2.0 || 2.0.0 ;; 15 || 15! ;; 15 || 15^\circ\text{ or }30^\circ ;; \frac12 || \frac{1}{2}x ;;
42 || \text{not }42 ;; 42 || \lnot 42 ;; 42 || \sim 42 ;; 42 || 42? ;; 42 || 42! ;; 3 || 3! ;;
42 || {42}^{1}0 ;; 42 || \overline{42} ;; 42 || 4\,2 ;; 42 || -42 ;; 42 || \hat{42} ;; 42 || 42i ;;
12 || 1\,2 ;; 0.5 || 5 ;; 0.5 || .05 ;; (1,234) || 1234 ;; (1,234) || 1,234 ;;
1234 || (1,234) ;; 1234 || 1,2,3,4 ;; 1234 || 1.234 ;; 2 || \sqrt{2}^2 ;;
10 || \text{ten or eleven} ;; x || x_0 ;; x || X ;; n || N ;; 2^{10} || 2^{1}0 ;; 2^{10} || 20 ;;
\sin x || \sin ;; \sin^2 x || \sin x^2 ;; \sin 2x || 2\sin x ;; \log_2 8 || \log_8 2 ;;
\tan^{-1}(2) || \frac{1}{\tan 2} ;; x^{-1} || -x ;; 1/x || x ;; -x^2 || (-x)^2 ;; 2x+1 || 2(x+1) ;;
e^x || e^{-x} ;; \pi || 3.141592653589793 ;; \sqrt2 || 1.4142135623730951 ;; 0.333 || \frac13 ;;
\frac13 || 0.3333333333333333 ;; [0,1] || (0,1) ;; [0,1] || 0,1 ;; (0,1) || x=0,1 ;;
\{0,1\} || (0,1) ;; \{0,1\} || [0,1] ;; x>3 || 3 ;; 3 || x\ge3 ;; x>3 || x>=3 ;;
(3,\infty) || [3,\infty) ;; x\ne3 || x>3 ;; \mathbb{R} || \mathbb{C} ;;
\mathbb{R}\setminus\{0\} || \mathbb{R} ;; x=1 || x=1 \text{ or } x=2 ;; x=1,x=2 || x=1 ;;
\pm1 || 1 ;; 1 || \pm1 ;; 1\pm i || 1+i ;; 5 \text{ kg} || 5\text{ g} ;;
5\text{ cm}^2 || 5\text{ cm} ;; 5\text{ m} || 500\text{ mm} ;; \$5 || 5\text{ cents} ;;
90^\circ || 90\text{ radians} ;; 60^\circ || \frac{\pi}{6} ;; 30 || \frac{\pi}{6} ;;
12:30 || 12.5 ;; 1:2 || 2:1 ;; 1:2 || 1:3 ;; 3:4:5 || 4:3:5 ;; 12_3 || 12_4 ;; 12_3 || 5 ;;
\text{Bob} || \text{Rob} ;; \text{Bob} || \text{Bob or Rob} ;; \text{Bob} || \text{not Bob} ;;
\text{increasing} || \text{decreasing} ;; \text{odd} || \text{even} ;; \text{ABCD} || ABDC ;;
B || \text{(B) or (C)} ;; B || \text{B or C} ;; B || \text{A, B, C, D} ;; AC || \text{A or C} ;;
AC || CAB ;; True || \text{not true} ;; yes || no ;; yes || \text{yes/no} ;;
\begin{pmatrix}1\\2\end{pmatrix} || \{1,2\} ;; \begin{pmatrix}1&2\\3&4\end{pmatrix} || -2 ;;
-2 || \det\begin{pmatrix}1&2\\3&4\end{pmatrix} ;; y=2x || y=2x+0.0001 ;; x+y=3 || x-y=3 ;;
x<y || y<x ;; y>2x || y\ge2x ;; 100 || 1e2i ;; 1e3 || 1 ;; \frac{1}{10^{30}} || 0 ;;
10^{-30} || 2\cdot10^{-30} ;; 2^{-98} || 2^{-99} ;; 3 || \lfloor\pi\rfloor ;; 4 || \max(3,4) ;;
6 || \gcd(12,18) ;; 1 || e^0 ;; 1 || x^0 ;; 7 || \int_0^7 dx ;; 7 || \lim_{x\to7}x ;;
x+1 || \frac{d}{dx}(x^2/2+x) ;; 10 || \sum_{i=1}^4 i ;; 24 || \prod_{i=1}^4 i ;; 5 || \sqrt{25} ;;
5 || \sqrt{3^2+4^2} ;; 0 || 1-1 ;; 6 || 3+3 ;; \frac56 || \frac12+\frac13 ;; 6 || \frac{12}{2} ;;
6 || 2\times3 ;; -6 || (-2)(3) ;; 0 || \sin 0 ;; \frac12 || \sin 30^\circ ;; 100 || 10\cdot10 ;;
2 || \log 100 ;; 1A_{16} || 1B_{16} ;; 4\pi || 12.566370614359172 ;;
x<-1 \text{ or } x>1 || |x|>1 ;; -2 || \sqrt[3]{-8} ;; (x-1)^2+(y+2)^2=9 || (x-1)^2+(y+2)^2=3^2
""")

# (gold, answer) accepted only with allow_undone
UNDONE = [
    ("1024", "2^{10}"),
    ("120", "5!"),
    ("10", "\\binom{5}{2}"),
    ("24", "4 \\cdot 6"),
    ("7", "3+4"),
    ("2", "\\sqrt{4}"),
    ("3", "\\log_2 8"),
    ("-1", "i^2"),
    ("-1", "e^{i\\pi}"),
    ("-i", "\\frac{1}{i}"),
    ("649", "3245/5"),
    ("1", "\\sin^2 x+\\cos^2 x"),
    ("\\frac{\\pi}{4}", "\\arctan 1"),
    ("\\sqrt{6}", "\\sqrt{2}\\sqrt{3}"),
    ("5", "|3+4i|"),
    ("3+4i", "(2+i)^2"),
    ("\\frac{1}{2}", "\\cos 60^\\circ"),
    ("\\{1,2,3,4\\}", "\\{1,3\\}\\cup\\{2,4\\}"),
    ("5050", "\\sum_{k=1}^{100} k"),
    ("\\frac{1}{3}", "\\int_0^1 x^2\\,dx"),
    ("120", "\\prod_{k=1}^{5} k"),
    ("2x", "\\frac{d}{dx} x^2"),
    ("1", "\\lim_{x\\to 0} \\frac{\\sin x}{x}"),
]

# (answer, reason): refused, for this reason, against the gold 42
REASONS = [
    ("", "empty"),
    ("\\ ", "empty"),
    ("\\text{}", "empty"),
    ("43", "mismatch"),
    ("41 \\text{ or } 42", "mismatch"),
    ("42 \\text{ is wrong, it is } 41", "unparsable"),
    ("7 8", "unparsable"),
    ("__import__('os').getpid()", "unparsable"),
    ("\\frac{1}{2", "unparsable"),
    ("\\{@q 1276915 \\#\\#", "unparsable"),
    ("6 \\cdot 7", "unevaluated"),
    ("\\frac{42}{0}", "undefined"),
    ("(" * 200 + "42" + ")" * 200, "too_deep"),
    ("1+" * 1000 + "1", "too_long"),
    ("9" * 2000, "too_long"),
    ("9" * 30_000, "too_long"),
    ("2^{10^{30}}", "too_big"),
]
