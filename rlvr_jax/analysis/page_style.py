"""The look of the report: light or dark as the reader's system asks."""

STYLE = """
:root { color-scheme: light dark; --bg: #f6f7f9; --card: #ffffff; --ink: #1d2330; --dim: #667080;
  --line: #e2e5ea; --right: #1f9d5c; --wrong: #d6453d; --unknown: #a07400; --accent: #2f7bf0; }
@media (prefers-color-scheme: dark) { :root { --bg: #12151a; --card: #1a1f27; --ink: #e6e9ef;
  --dim: #949cab; --line: #2b323d; --right: #3dc07c; --wrong: #f0685f; --unknown: #d9a520;
  --accent: #64a1ff; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--bg); color: var(--ink); line-height: 1.5;
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
main { max-width: 1120px; margin: 0 auto; padding: 40px 24px 80px; }
.eyebrow { color: var(--dim); font-size: 14px; letter-spacing: .02em; }
h1 { font-size: 30px; line-height: 1.28; margin: 6px 0 28px; font-weight: 650; max-width: 34em; }
h1 b { color: var(--accent); font-weight: 700; white-space: nowrap; }
h1 .ci, .ci { color: var(--dim); font-weight: 400; white-space: nowrap; }
h1 .ci { font-size: 0.62em; }
h2 { font-size: 20px; margin: 44px 0 12px; font-weight: 620; }
p { margin: 0 0 12px; color: var(--dim); }
.dim { color: var(--dim); }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 14px;
  margin-bottom: 20px; }
.card, .plot, .scroll, details { background: var(--card); border: 1px solid var(--line);
  border-radius: 12px; }
.card { padding: 16px 18px; }
.card .value { font-size: 27px; font-weight: 650; font-variant-numeric: tabular-nums; }
.card .label { color: var(--dim); font-size: 13.5px; }
.plots { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 16px; }
.plot { margin: 0; padding: 14px 14px 12px; }
.plot.wide { grid-column: 1 / -1; }
.plot img { width: 100%; display: block; }
figcaption { color: var(--dim); font-size: 13.5px; padding: 6px 4px 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 14.5px; }
th { text-align: left; color: var(--dim); font-weight: 500; font-size: 13px; white-space: nowrap; }
th, td { padding: 10px 14px; border-bottom: 1px solid var(--line); vertical-align: top;
  font-variant-numeric: tabular-nums; }
tbody tr:last-child td { border-bottom: 0; }
pre, code { font: 13px/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono",
  monospace; }
pre { margin: 0; white-space: pre-wrap; overflow-wrap: anywhere; }
code { overflow-wrap: anywhere; }
.samples { table-layout: fixed; min-width: 720px; }
.samples th:first-child { width: 26%; }
.sample { border-left: 3px solid var(--dim); padding-left: 12px; }
.sample .mark { font-size: 13px; font-weight: 620; }
.sample.right { border-color: var(--right); } .sample.right .mark, .ok { color: var(--right); }
.sample.wrong { border-color: var(--wrong); } .sample.wrong .mark, .bad { color: var(--wrong); }
.sample.unknown { border-color: var(--unknown); } .sample.unknown .mark { color: var(--unknown); }
.ok, .bad { font-weight: 700; }
.notes, .gold { color: var(--dim); font-size: 12.5px; margin-top: 4px; }
details { padding: 12px 16px; margin-top: 14px; }
summary { cursor: pointer; color: var(--dim); }
details pre { margin-top: 10px; }
@media (max-width: 760px) { .plots { grid-template-columns: 1fr; } h1 { font-size: 23px; } }
@media print { body { background: #fff; } .plot, .card { break-inside: avoid; } }
"""
